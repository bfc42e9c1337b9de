import { newSecret } from "../../../shared/dev/config.ts";
import { RUNNER_SECRET } from "../demo-config.ts";
import { shortId } from "../event-line.ts";
import type { Demo, Scene } from "../scene.ts";
import type { AcceptedCall } from "../tally.ts";

const BODY = '{"about":"a call that fails for good"}';

/** A mistake in a deployment: what the runner refuses fails, and an operator replays it once the mistake is mended. */
export const wrongSecret: Scene = {
  title: "A job that fails for good fails, is shown, replayed and delivered",
  async play(demo) {
    const call = await failOne(demo);
    await showFailed(demo, call);
    await mendAndReplay(demo, call);
  },
};

async function failOne({ stage, parts, world, sender, tally, endpoint }: Demo): Promise<AcceptedCall> {
  await parts.runner.kill("SIGTERM");
  await parts.runner.restart({ [RUNNER_SECRET]: newSecret() });
  stage.say("a mistake: the runner is restarted with a secret that is not the producer's");

  const { status, callId } = await sender.send({ endpoint: endpoint("hmac-sha256"), body: BODY });
  const call = tally.accepted.get(callId);
  stage.check(`a webhook is accepted with 202: call ${shortId(callId)}`, status, 202);
  if (call === undefined) throw new Error("expected: a call to fail");

  const [failed] = await world.logs.producer.forEach("call.failed", [callId]);
  stage.check("the runner answers 401; no retry would help, so it fails at once", failed?.["attempt"], 1);
  if (failed !== undefined) stage.log("producer", failed);
  return call;
}

async function showFailed({ stage, postern }: Demo, { callId }: AcceptedCall): Promise<void> {
  const list = await postern("failed", "list");
  stage.check("$ postern failed list", [list.exitCode, includes(list.lines, callId)], [0, true]);
  stage.output(list.lines);
  const show = await postern("failed", "show", callId);
  const told = ["runner.refused", "X-WEBHOOK-PATH", BODY].map((text) => includes(show.lines, text));
  stage.check(`$ postern failed show ${shortId(callId)}`, [show.exitCode, ...told], [0, true, true, true]);
  stage.output(show.lines);
}

async function mendAndReplay(demo: Demo, call: AcceptedCall): Promise<void> {
  const { stage, parts, world, runner, postern, tally } = demo;
  await parts.runner.kill("SIGTERM");
  await parts.runner.restart();
  stage.say("mended: the runner is restarted with the right secret");

  const replay = await postern("failed", "replay", call.callId);
  stage.check(`$ postern failed replay ${shortId(call.callId)}`, replay.exitCode, 0);
  stage.output(replay.lines);
  if (replay.exitCode === 0) tally.replayed += 1;

  const [injected] = await world.logs.producer.forEach("call.injected", [call.callId]);
  if (injected !== undefined) stage.log("producer", injected);
  await runner.untilDone([call]);
  stage.check("the call is delivered under its first id", await runner.stateOf(call.callId), "done");
  const { lines } = await postern("failed", "list", "--json");
  stage.check("and nothing is failed any more", includes(lines, call.callId), false);
}

function includes(lines: readonly string[], text: string): boolean {
  return lines.some((line) => line.includes(text));
}
