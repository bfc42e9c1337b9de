import { randomUUID } from "node:crypto";
import { hmacSha256 } from "../../shared/crypto/hmac.ts";
import { newSecret } from "../../shared/dev/config.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { type Demo, endpointAt, postern, send, untilDone } from "./demo.ts";
import { jsonOf } from "./http.ts";
import { shortId } from "./show.ts";
import { RECEIVER_PATH, RUNNER_SECRET, TOLD_PATH } from "./start.ts";

/** One delivery of each sender that has an endpoint, by the preset of its name alone. */
export async function realSenders(demo: Demo): Promise<void> {
  const { show, stack, log, webhooks } = demo;
  const senders = stack.config.webhooks?.endpoints.filter(({ preset }) => preset !== undefined) ?? [];
  for (const { path, preset } of senders) {
    const { exitCode } = await postern(demo, "send", path);
    const accepted = await log.await(
      `webhook.accepted of ${path}`,
      (event) => event.event === "webhook.accepted" && event["path"] === path,
    );
    const callId = String(accepted["callId"]);
    webhooks.sent += 1;
    webhooks.accepted.add(callId);
    const { eventType } = await log.ofCall("job.finished", callId);
    show.check(
      `${preset} is accepted, and the runner has run call ${shortId(callId)}, an event "${eventType}"`,
      exitCode,
      0,
    );
  }
  const ping = await postern(demo, "send", "/hooks/github", "--event", "ping");
  webhooks.sent += 1;
  webhooks.dropped += 1;
  show.check(
    "GitHub's X-GitHub-Event chooses the job; ping has none, and is dropped",
    [ping.exitCode, ping.text.includes("dropped")],
    [0, true],
  );
}

const OLD_SECS = 600;

/** An attacker has recorded a request and sends it again, soon and later; the operator sees why it is refused. */
export async function recordedRequest(demo: Demo): Promise<void> {
  const { show } = demo;
  const endpoint = endpointAt(demo, "/hooks/stripe");
  const secret = endpoint.auth === "none" ? undefined : endpoint.secret?.[0];
  if (secret === undefined) throw new Error("expected: a secret of Stripe's");
  /** https://docs.stripe.com/webhooks/signature. The key is the whole secret, with its prefix. */
  const signed = (body: string, at: number) => {
    const digest = hmacSha256(secret, Buffer.from(`${at}.${body}`)).toString("hex");
    return { endpoint, body, headers: { "Stripe-Signature": `t=${at},v1=${digest}` } };
  };
  const event = () => JSON.stringify({ id: `evt_${randomUUID()}`, type: "charge.succeeded" });
  const now = Math.floor(systemClock() / 1000);

  const recorded = signed(event(), now);
  const [first, again] = [await send(demo, recorded), await send(demo, recorded)];
  show.check(
    `the same bytes, sent twice, are one call: ${shortId(first.callId)}`,
    [first.status, again.status, again.callId, again.headers.get("idempotent-replayed")],
    [200, 200, first.callId, "true"],
  );
  await untilDone(demo, [{ callId: first.callId, body: recorded.body }]);
  const old = await send(demo, signed(event(), now - OLD_SECS));
  show.check("a request that was signed ten minutes ago is answered 401", old.status, 401);
  const list = await postern(demo, "rejected", "list", "--path", endpoint.path, "--limit", "1");
  show.check(
    "the operator sees why: it is stale",
    [list.exitCode, /webhook\.credential_rejected +stale: /.test(list.text)],
    [0, true],
  );
}

const LONG_BODY = JSON.stringify({ steps: 3 });
const METADATA_URL = "https://169.254.169.254/latest/meta-data/";

/** A long job ends long after its 202. A callback reports its end, here to an endpoint of the same gateway, which verifies it. */
export async function calledBack(demo: Demo): Promise<void> {
  const { show, log } = demo;
  const endpoint = endpointAt(demo, TOLD_PATH);
  const url = `${endpoint.callback_hosts?.[0]}${RECEIVER_PATH}`;
  const askFor = (target: string) =>
    send(demo, { endpoint, body: LONG_BODY, headers: { "X-PLATFORM-CALLBACK": target } });
  const answer = await askFor(url);
  show.check(
    `202: call ${shortId(answer.callId)} begins, with X-PLATFORM-CALLBACK: ${url}`,
    answer.status,
    202,
  );
  const received = await log.await(
    "a callback at its receiver",
    ({ event, eventType }) => event === "job.finished" && eventType === "call.completed",
  );
  show.log("runner", received);
  demo.webhooks.sent += 1;
  demo.webhooks.accepted.add(String(received["callId"]));
  show.check(
    "the callback is signed as Standard Webhooks says, and its receiver has verified that",
    received["eventType"],
    "call.completed",
  );
  const refused = await askFor(METADATA_URL);
  show.check(
    `403: a callback to ${METADATA_URL} is refused, and nothing runs`,
    [refused.status, jsonOf(refused)["code"]],
    [403, "callback.refused"],
  );
}

/** A mistake in a deployment: the runner refuses a call, which is kept; an operator runs it again after the mistake is mended. */
export async function refusedCall(demo: Demo): Promise<void> {
  const { show, runner, log } = demo;
  await runner.kill("SIGTERM");
  await runner.restart({ [RUNNER_SECRET]: newSecret() });
  await untilReady(runner);
  show.say("a mistake: the runner is started with a secret that is not the producer's");
  const body = '{"about":"a call that fails for good"}';
  const { callId, status } = await send(demo, { endpoint: endpointAt(demo, "/hooks/hmac"), body });
  show.check(`202: call ${shortId(callId)}`, status, 202);
  const failed = await log.ofCall("call.failed", callId);
  show.log("producer", failed);
  show.check(
    "the runner answers 401; no retry would help, so the call fails",
    failed["code"],
    "runner.refused",
  );
  const list = await postern(demo, "failed", "list");
  show.check("the call is listed", [list.exitCode, list.text.includes(callId)], [0, true]);
  const one = await postern(demo, "failed", "show", callId);
  show.check(
    "and kept with its body and the reason",
    [one.exitCode, one.text.includes("runner.refused"), one.text.includes(body)],
    [0, true, true],
  );

  await runner.kill("SIGTERM");
  await runner.restart();
  show.say("mended: the runner is started with the right secret");
  const replay = await postern(demo, "failed", "replay", callId);
  await untilDone(demo, [{ callId, body }]);
  await log.ofCall("job.finished", callId);
  show.check("the call has run, under its first id", [replay.exitCode, log.runs().get(callId)], [0, 1]);
}
