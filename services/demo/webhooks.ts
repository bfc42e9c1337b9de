import { randomUUID } from "node:crypto";
import { exampleBody } from "../../shared/dev/config.ts";
import { beforeDeadline } from "../../shared/dev/wait.ts";
import { type Call, curl, type Demo, endpointAt, send, untilDone } from "./demo.ts";
import { jsonOf } from "./http.ts";
import { shortId } from "./show.ts";

/** One webhook from its 202 to its run, and the same delivery once more. */
export async function firstWebhook(demo: Demo): Promise<void> {
  const { show, log } = demo;
  const endpoint = endpointAt(demo, "/hooks/bearer");
  const body = exampleBody(endpoint.job_id);
  const webhook = { endpoint, body, headers: { "X-Delivery-Id": randomUUID() } };
  const first = await curl(demo, webhook);
  show.check(`202: call ${shortId(first.callId)} is on disk`, first.status, 202);
  await untilDone(demo, [{ callId: first.callId, body }]);
  show.log("runner", await log.ofCall("job.finished", first.callId));
  show.check("the runner has run it, with the very bytes that were sent", log.runs().get(first.callId), 1);

  const again = await curl(demo, webhook);
  show.check(
    "202: the delivery is known by its id, so this is the same call, and does not run again",
    [again.status, again.callId, again.headers.get("idempotent-replayed")],
    [202, first.callId, "true"],
  );
}

/** A signature of other bytes: the sender learns that it is refused, the operator learns why. */
export async function wrongSignature(demo: Demo): Promise<void> {
  const { show, log } = demo;
  const endpoint = endpointAt(demo, "/hooks/hmac");
  const signedBody = '{"amount":1}';
  const signed = await curl(demo, { endpoint, body: signedBody });
  show.check(
    `202: the signature is of these bytes; call ${shortId(signed.callId)}`,
    [signed.status, signed.callId !== ""],
    [202, true],
  );
  const forged = await curl(demo, { endpoint, body: '{"amount":1000}', signedBody });
  show.check(
    `401: ${jsonOf(forged)["detail"]}`,
    [forged.status, forged.callId, forged.text.includes("mismatch")],
    [401, "", false],
  );
  const refused = await log.await(
    "webhook.refused in the gateway's log",
    ({ event, path }) => event === "webhook.refused" && path === endpoint.path,
  );
  show.log("webhooks", refused);
  show.check("only the operator sees why: mismatch", refused["reason"], "mismatch");
}

const OUTAGE_CALLS = 8;

/** The runner is away for a while: calls are accepted, wait, and are delivered when it is back. */
export async function runnerOutage(demo: Demo): Promise<void> {
  const { show, runner, log, redis } = demo;
  const exit = await runner.kill("SIGTERM");
  show.check("the runner is stopped (SIGTERM), and ends with exit code 0", exit.code, 0);
  const calls = await sendSeveral(demo, OUTAGE_CALLS, "outage");
  const away = await log.await("the producer finds no runner", ({ event }) => event === "runner.away");
  show.log("producer", away);
  const waiting = { waiting: OUTAGE_CALLS, failed: 0 };
  show.check(`${OUTAGE_CALLS} calls wait, and none has failed`, await redis.calls(), waiting);

  await runner.restart();
  show.say("the runner is started again");
  await showRunOnce(demo, calls);
  const ids = calls.map(({ callId }) => callId);
  // A runner that starts answers 503 until it has checked its Redis, and that does cost an attempt.
  const whileAway = log
    .named("call.delayed")
    .filter(({ callId, code }) => ids.includes(String(callId)) && code === "runner.unreachable");
  show.check(
    "the outage cost no call an attempt",
    whileAway.filter(({ spent }) => spent),
    [],
  );
}

const KILL_CALLS = 5;

/** SIGKILL at the worst instant: the runner has answered, and the producer has not recorded it. */
export async function killedProducer(demo: Demo): Promise<void> {
  const { show, stack, log, redis } = demo;
  const { producer } = stack.parts;
  await producer.kill("SIGTERM");
  await producer.restart({ POSTERN_FAILPOINT: "producer.after_post" });
  show.say("the next producer is killed once the runner has answered it, before it records the answer");
  const calls = await sendSeveral(demo, KILL_CALLS, "kill");
  const exit = await beforeDeadline("the producer is killed", producer.process.exit);
  show.check("the producer is killed (SIGKILL)", exit.signal, "SIGKILL");
  const waiting = { waiting: KILL_CALLS, failed: 0 };
  show.check(`all ${KILL_CALLS} calls are still in the queue`, await redis.calls(), waiting);

  await producer.restart();
  show.say("a new producer takes over what the dead one held, once its locks have lapsed (3 s)");
  await showRunOnce(demo, calls);
  const ids = calls.map(({ callId }) => callId);
  const repeat = await log.await(
    "the runner is sent again what it has answered",
    ({ event, callId, replayed }) =>
      event === "job.finished" && replayed === true && ids.includes(String(callId)),
  );
  show.log("runner", repeat);
  show.check("what had run before the kill was sent again, and answered from memory", repeat["status"], 200);
}

/** Sends so many signed webhooks at once, and shows that all were accepted. Rejects unless they were. */
async function sendSeveral(demo: Demo, count: number, about: string): Promise<Call[]> {
  const endpoint = endpointAt(demo, "/hooks/hmac");
  const bodies = Array.from({ length: count }, (_, i) => JSON.stringify({ about, number: i + 1 }));
  const answers = await Promise.all(bodies.map((body) => send(demo, { endpoint, body })));
  const accepted = answers.filter(({ status }) => status === 202).length;
  demo.show.check(`${count} webhooks are sent: ${count} times 202`, accepted, count);
  if (accepted < count) throw new Error(`expected: ${count} calls to go on with`);
  return bodies.map((body, i) => ({ body, callId: answers[i]?.callId ?? "" }));
}

/** Waits until the calls have ended, and shows that each ran once. */
async function showRunOnce(demo: Demo, calls: readonly Call[]): Promise<void> {
  const { show, log } = demo;
  await untilDone(demo, calls);
  for (const { callId } of calls) {
    await log.ofCall("call.injected", callId);
    // Each part's log is read by itself.
    await log.ofCall("job.finished", callId);
  }
  const runs = log.runs();
  show.check(
    `${calls.length} of ${calls.length} are delivered, and each ran once`,
    calls.map(({ callId }) => runs.get(callId)),
    calls.map(() => 1),
  );
}
