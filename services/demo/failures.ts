import { newSecret } from "../../shared/dev/config.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { beforeDeadline, eventually } from "../../shared/dev/wait.ts";
import type { Demo } from "./demo.ts";
import type { AcceptedCall } from "./sender.ts";
import { shortId } from "./show.ts";
import { offersOf } from "./views.ts";
import { RUNNER_SECRET } from "./world.ts";

const OUTAGE_CALLS = 8;

/** The runner is away for a while: calls are accepted, wait, and are delivered when it is back. */
export async function runnerOutage(demo: Demo): Promise<void> {
  const { show, parts, world, runner } = demo;
  show.scenario("The runner is stopped; calls are accepted, wait and are delivered when it returns");
  const exit = await parts.runner.kill("SIGTERM");
  show.check("the runner is told to stop (SIGTERM) and ends with exit code 0", exit.code, 0);

  const calls = await sendSeveral(demo, OUTAGE_CALLS, "outage");
  const ids = calls.map(({ callId }) => callId);
  const away = await world.logs.producer.first(
    "the producer finds no runner",
    ({ event }) => event === "runner.away",
  );
  show.check("the producer finds no runner, and from now on probes for it", away["runner"], "default");
  show.log("producer", away);
  const queued = await world.queue.look();
  show.check("none is lost or failed meanwhile", queued, { waiting: OUTAGE_CALLS, failed: 0 });

  await parts.runner.restart();
  show.say(`the runner is started again at ${parts.runner.address}`);
  const injected = await world.logs.producer.ofCalls("call.injected", ids);
  await runner.untilDone(calls);
  show.check(`${OUTAGE_CALLS} of ${OUTAGE_CALLS} are delivered`, injected.length, OUTAGE_CALLS);
  // Until a runner that starts has checked its Redis it answers 503, and that does cost an attempt.
  const whileAway = world.logs.producer
    .named("call.delayed")
    .filter(({ callId, code }) => ids.includes(String(callId)) && code === "runner.unreachable");
  show.check(
    "no attempt was spent while there was no runner",
    whileAway.filter(({ spent }) => spent),
    [],
  );
  for (const event of injected.slice(-1)) show.log("producer", event);
}

/** Sends so many signed webhooks at once and shows how many were accepted. Rejects unless all were. */
async function sendSeveral(demo: Demo, count: number, about: string): Promise<AcceptedCall[]> {
  const { show, sender, ledger, endpoint } = demo;
  const sent = Array.from({ length: count }, (_, i) =>
    sender.send({ endpoint: endpoint("hmac-sha256"), body: JSON.stringify({ about, number: i + 1 }) }),
  );
  const calls = (await Promise.all(sent)).flatMap(({ callId }) => ledger.accepted.get(callId) ?? []);
  show.check(`${count} webhooks are sent: ${count} times 202`, calls.length, count);
  if (calls.length < count) throw new Error(`expected: ${count} calls to go on with`);
  return calls;
}

const FAILING_BODY = '{"about":"a call that fails for good"}';

/** A mistake in a deployment: the runner refuses a call, which fails; an operator replays it after the mistake is mended. */
export async function wrongSecret(demo: Demo): Promise<void> {
  const { show, parts, world, sender, endpoint } = demo;
  show.scenario("A call that fails for good is shown, replayed and delivered");
  await parts.runner.kill("SIGTERM");
  await parts.runner.restart({ [RUNNER_SECRET]: newSecret() });
  await untilReady(parts.runner);
  show.say("a mistake: the runner is restarted with a secret that is not the producer's");

  const answer = await sender.send({ endpoint: endpoint("hmac-sha256"), body: FAILING_BODY });
  show.check(`a webhook is accepted with 202: call ${shortId(answer.callId)}`, answer.status, 202);
  const call = sender.accepted(answer);
  const failed = await world.logs.producer.ofCall("call.failed", call.callId);
  show.check("the runner answers 401; no retry would help, so it fails at once", failed["attempt"], 1);
  show.log("producer", failed);
  await showFailed(demo, call);

  await parts.runner.kill("SIGTERM");
  await parts.runner.restart();
  show.say("mended: the runner is restarted with the right secret");
  await replay(demo, call);
}

async function showFailed({ show, postern }: Demo, { callId }: AcceptedCall): Promise<void> {
  const list = await postern("failed", "list");
  show.check("$ postern failed list", [list.exitCode, includes(list.lines, callId)], [0, true]);
  show.output(list.lines);
  const one = await postern("failed", "show", callId);
  const told = ["runner.refused", "X-WEBHOOK-PATH", FAILING_BODY].map((text) => includes(one.lines, text));
  show.check(`$ postern failed show ${shortId(callId)}`, [one.exitCode, ...told], [0, true, true, true]);
  show.output(one.lines);
}

async function replay(demo: Demo, call: AcceptedCall): Promise<void> {
  const { show, world, runner, postern, ledger } = demo;
  const { callId } = call;
  const { exitCode, lines } = await postern("failed", "replay", callId);
  show.check(`$ postern failed replay ${shortId(callId)}`, exitCode, 0);
  show.output(lines);
  if (exitCode === 0) ledger.replayed += 1;

  show.log("producer", await world.logs.producer.ofCall("call.injected", callId));
  await runner.untilDone([call]);
  show.check("the call is delivered under its first id", await runner.stateOf(callId), "done");
  const left = await postern("failed", "list", "--json");
  show.check("and nothing is failed any more", includes(left.lines, callId), false);
}

function includes(lines: readonly string[], text: string): boolean {
  return lines.some((line) => line.includes(text));
}

const KILL_CALLS = 5;

/** SIGKILL at the worst instant: the runner has answered, and the producer has not recorded it. */
export async function killedProducer(demo: Demo): Promise<void> {
  const { show, parts, world, runner } = demo;
  show.scenario("The producer is killed in the middle of injecting; nothing is lost, nothing runs twice");
  await parts.producer.kill("SIGTERM");
  await parts.producer.restart({ POSTERN_FAILPOINT: "producer.after_post" });
  show.say(
    "the next producer gets SIGKILL as soon as the runner has answered it, before it records anything",
  );

  const calls = await sendSeveral(demo, KILL_CALLS, "kill");
  const exit = await beforeDeadline("the producer is killed", parts.producer.process.exit);
  show.check("the producer is killed by SIGKILL", exit.signal, "SIGKILL");
  const queued = await world.queue.look();
  show.check(`all ${KILL_CALLS} calls are still in the queue`, queued, { waiting: KILL_CALLS, failed: 0 });

  await parts.producer.restart();
  show.say("a new producer starts; it takes back what the dead one held once its locks have lapsed (3 s)");
  const ids = calls.map(({ callId }) => callId);
  const injected = await world.logs.producer.ofCalls("call.injected", ids);
  await runner.untilDone(calls);
  show.check(`${KILL_CALLS} of ${KILL_CALLS} are delivered`, injected.length, KILL_CALLS);

  const { runs, remembered } = await eventually(
    "the runner's log has a run of each call, and a repeat",
    () => {
      const offers = offersOf(world.logs.runner, (callId) => ids.includes(callId));
      return offers.runs.size >= ids.length && offers.remembered.length > 0 ? offers : undefined;
    },
  );
  show.check(
    "each of them ran once",
    ids.map((id) => runs.get(id)),
    ids.map(() => 1),
  );
  show.check(
    `what had run before the kill was offered again, and answered from memory (${remembered.length} of ${ids.length})`,
    remembered.map(({ status }) => status),
    remembered.map(() => 200),
  );
  for (const event of remembered.slice(0, 2)) show.log("runner", event);
}
