import { randomUUID } from "node:crypto";
import { exampleBody, newSecret } from "../../../shared/dev/config.ts";
import type { LoggedEvent } from "../../../shared/dev/process.ts";
import { untilReady } from "../../../shared/dev/stack.ts";
import { beforeDeadline } from "../../../shared/dev/wait.ts";
import { hmacSha256 } from "../../../shared/platform/crypto/hmac.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { type Call, type Chapter, curl, type Demo, endpointAt, postern, send, untilRun } from "./demo.ts";
import { shortId, show } from "./show.ts";
import { LONG_JOB_PATH, RECEIVER_PATH, RUNNER_SECRET } from "./start.ts";

export const firstWebhook: Chapter = {
  title: "A webhook is on disk before its 202, and runs once although it is sent twice",
  async show(demo) {
    const { log } = demo;
    const path = "/hooks/bearer";
    const body = exampleBody(endpointAt(demo, path).job_id);
    const webhook = { path, body, headers: { "X-Delivery-Id": randomUUID() } };
    const { status, callId } = await curl(demo, webhook);
    show.check(`202: call ${shortId(callId)} is on disk`, status, 202);
    show.log("runner", await untilRun(demo, { callId, body }));
    show.check("the runner has run it with exactly the bytes that were sent", log.runs().get(callId), 1);

    const again = await curl(demo, webhook);
    show.check(
      "202: the delivery id is known, so this is the same call, and it does not run again",
      [again.status, again.callId, again.headers.get("idempotent-replayed")],
      [202, callId, "true"],
    );
  },
};

/** A webhook has the signature of another body. Its sender gets only a refusal, and the operator's log has the reason. */
export const wrongSignature: Chapter = {
  title: "A wrong signature is refused",
  async show(demo) {
    const { log } = demo;
    const path = "/hooks/hmac";
    const signedBody = '{"amount":1}';
    const { status, callId } = await curl(demo, { path, body: signedBody });
    show.check(
      `202: the signature matches the body; call ${shortId(callId)}`,
      [status, callId !== ""],
      [202, true],
    );
    const forged = await curl(demo, { path, body: '{"amount":1000}', signedBody });
    show.check(
      `401: ${forged.json["detail"]}`,
      [forged.status, forged.callId, forged.text.includes("mismatch")],
      [401, "", false],
    );
    const refused = await log.await(
      "webhook.refused in the gateway's log",
      (event) => event.event === "webhook.refused" && event["path"] === path,
    );
    show.log("webhooks", refused);
    show.check("only the operator sees the reason: mismatch", refused["reason"], "mismatch");
  },
};

const OUTAGE_CALLS = 8;

export const runnerOutage: Chapter = {
  title: "While the runner is down, calls wait; they run when it is up again",
  async show(demo) {
    const { runner, log } = demo;
    const { code } = await runner.kill("SIGTERM");
    show.check("the runner is stopped (SIGTERM) and exits with code 0", code, 0);
    const calls = await sendSeveral(demo, OUTAGE_CALLS, "outage");
    const away = await log.await(
      "the producer reports that the runner is down",
      ({ event }) => event === "runner.down",
    );
    show.log("producer", away);
    await showWaiting(demo, `${OUTAGE_CALLS} calls wait, and none has failed`, OUTAGE_CALLS);

    await runner.restart();
    show.say("the runner is started again");
    await showRunOnce(demo, calls);
    const spent = log
      .named("call.delayed")
      .filter((event) => isOf(calls, event) && event["code"] === "runner.unreachable" && event["spent"]);
    show.check("no failed connection counted as an attempt", spent, []);
  },
};

const KILL_CALLS = 5;

/** The producer is killed at the worst moment: the runner has answered, but the producer has not recorded the answer yet. */
export const killedProducer: Chapter = {
  title: "The producer is killed: no call is lost, and none runs twice",
  async show(demo) {
    const { stack, log } = demo;
    const { producer } = stack.parts;
    await producer.restart({ POSTERN_FAILPOINT: "producer.after_post" });
    show.say(
      "the producer is restarted; it will be killed after the runner answers and before the answer is recorded",
    );
    const calls = await sendSeveral(demo, KILL_CALLS, "kill");
    const { signal } = await beforeDeadline("the producer is killed", producer.process.exit);
    show.check("the producer is killed (SIGKILL)", signal, "SIGKILL");
    await showWaiting(demo, `all ${KILL_CALLS} calls are still in the queue`, KILL_CALLS);

    await producer.restart();
    show.say("a new producer takes over the calls of the dead one when their leases expire (3 s)");
    await showRunOnce(demo, calls);
    const repeat = await log.await(
      "the runner gets a call again that it has answered",
      (event) => event.event === "job.finished" && event["replayed"] === true && isOf(calls, event),
    );
    show.log("runner", repeat);
    show.check(
      "a call that had run before the kill was sent again, and answered from memory",
      repeat["status"],
      200,
    );
  },
};

/** Sends one delivery to each endpoint that is configured with the preset of a sender. */
export const realSenders: Chapter = {
  title: "Webhooks with the real signatures of GitHub, Stripe, Slack and Standard Webhooks are accepted",
  more: true,
  async show(demo) {
    const { stack, log, webhooks } = demo;
    const senders = stack.config.webhooks?.endpoints.filter(({ preset }) => preset !== undefined) ?? [];
    for (const { path, preset } of senders) {
      const { exitCode } = await postern(demo, "send", path);
      // The call's id is read from the log. The gateway's answer may not contain it: Slack requires an empty answer.
      const accepted = await log.await(
        `webhook.accepted of ${path}`,
        (event) => event.event === "webhook.accepted" && event["path"] === path,
      );
      const callId = String(accepted["callId"]);
      webhooks.push({ status: 202, callId });
      const { eventType } = await log.ofCall("job.finished", callId);
      show.check(
        `${preset} is accepted, and the runner has run call ${shortId(callId)} (event "${eventType}")`,
        exitCode,
        0,
      );
    }
    const ping = await postern(demo, "send", "/hooks/github", "--event", "ping");
    webhooks.push({ status: 202, callId: "" });
    show.check(
      "X-GitHub-Event selects the job; ping has no job, so it is dropped",
      [ping.exitCode, ping.text.includes("dropped")],
      [0, true],
    );
  },
};

const OLD_SECS = 600;

/**
 * An attacker has recorded a request and sends it again: once at once, and once when its signature is too old. The
 * operator sees the second one in the list of refused requests.
 */
export const recordedRequest: Chapter = {
  title: "A recorded request makes no second call, and is refused when it is old",
  more: true,
  async show(demo) {
    const path = "/hooks/stripe";
    const endpoint = endpointAt(demo, path);
    const [secret] = endpoint.secret;
    if (secret === undefined) throw new Error("the Stripe endpoint has no secret");
    /** Signs a new event as https://docs.stripe.com/webhooks/signature describes. The key is the whole secret, with `whsec_`. */
    const signedAt = (at: number) => {
      const body = JSON.stringify({ id: `evt_${randomUUID()}`, type: "charge.succeeded" });
      const digest = hmacSha256(secret, Buffer.from(`${at}.${body}`)).toString("hex");
      return { path, body, headers: { "Stripe-Signature": `t=${at},v1=${digest}` } };
    };
    const now = Math.floor(systemClock() / 1000);

    const recorded = signedAt(now);
    const [first, again] = [await send(demo, recorded), await send(demo, recorded)];
    show.check(
      `the same bytes, sent twice, are one call: ${shortId(first.callId)}`,
      [first.status, again.status, again.callId, again.headers.get("idempotent-replayed")],
      [200, 200, first.callId, "true"],
    );
    await untilRun(demo, { callId: first.callId, body: recorded.body });
    const old = await send(demo, signedAt(now - OLD_SECS));
    show.check("a request that was signed ten minutes ago gets 401", old.status, 401);
    const list = await postern(demo, "rejected", "list", "--endpoint", path, "--limit", "1");
    show.check(
      "the operator sees the reason: stale",
      [list.exitCode, /webhook\.credential_rejected +stale: /.test(list.text)],
      [0, true],
    );
  },
};

const METADATA_URL = "https://169.254.169.254/latest/meta-data/";

/**
 * A long job ends long after the client's 202. Postern then sends a callback, a signed message about the end. Here its
 * receiver is another endpoint of the same gateway, which verifies the signature.
 */
export const calledBack: Chapter = {
  title: "A long job sends a callback when it ends",
  more: true,
  async show(demo) {
    const { stack, log, webhooks } = demo;
    const url = `http://${stack.parts.webhooks.address}${RECEIVER_PATH}`;
    const askFor = (target: string) =>
      send(demo, { path: LONG_JOB_PATH, body: '{"steps":3}', headers: { "X-PLATFORM-CALLBACK": target } });
    const { status, callId } = await askFor(url);
    show.check(`202: call ${shortId(callId)} is accepted, with X-PLATFORM-CALLBACK: ${url}`, status, 202);
    const received = await log.await(
      "a callback at its receiver",
      ({ event, eventType }) => event === "job.finished" && eventType === "call.completed",
    );
    show.log("runner", received);
    webhooks.push({ status: 202, callId: String(received["callId"]) });
    show.check(
      "the receiver has verified the callback's Standard Webhooks signature",
      received["eventType"],
      "call.completed",
    );
    const refused = await askFor(METADATA_URL);
    show.check(
      `403: a callback to ${METADATA_URL} is refused, and nothing runs`,
      [refused.status, refused.json["code"]],
      [403, "callback.refused"],
    );
  },
};

/**
 * The runner has a wrong secret and refuses a call. Postern keeps the failed call. After the runner has the right secret,
 * an operator replays the call.
 */
export const refusedCall: Chapter = {
  title: "A call that the runner refuses is kept, and an operator replays it",
  more: true,
  async show(demo) {
    const { runner, log } = demo;
    await runner.restart({ [RUNNER_SECRET]: newSecret() });
    await untilReady(runner);
    show.say("by mistake, the runner is started with the wrong secret");
    const body = '{"about":"a call that fails for good"}';
    const { callId, status } = await send(demo, { path: "/hooks/hmac", body });
    show.check(`202: call ${shortId(callId)}`, status, 202);
    const failed = await log.ofCall("call.failed", callId);
    show.log("producer", failed);
    const { code } = failed;
    show.check("the runner answers 401; a retry cannot help, so the call fails", code, "runner.refused");
    const list = await postern(demo, "failed", "list");
    show.check("the failed call is listed", [list.exitCode, list.text.includes(callId)], [0, true]);
    const one = await postern(demo, "failed", "show", callId);
    show.check(
      "it is kept with its body and the reason",
      [one.exitCode, one.text.includes("runner.refused"), one.text.includes(body)],
      [0, true, true],
    );

    await runner.restart();
    show.say("the runner is started with the right secret");
    const replay = await postern(demo, "failed", "replay", callId);
    await untilRun(demo, { callId, body });
    show.check("the call has run under the same id", [replay.exitCode, log.runs().get(callId)], [0, 1]);
  },
};

/** Sends several signed webhooks at once, and shows that all were accepted. Rejects if one was refused. */
async function sendSeveral(demo: Demo, count: number, about: string): Promise<Call[]> {
  const bodies = Array.from({ length: count }, (_, i) => JSON.stringify({ about, number: i + 1 }));
  const calls = await Promise.all(
    bodies.map(async (body) => ({ body, ...(await send(demo, { path: "/hooks/hmac", body })) })),
  );
  const accepted = calls.filter(({ status }) => status === 202).length;
  show.check(`${count} webhooks are sent, and all get 202`, accepted, count);
  if (accepted < count) throw new Error(`the chapter needs ${count} accepted calls`);
  return calls;
}

async function showWaiting({ redis }: Demo, statement: string, waiting: number): Promise<void> {
  show.check(statement, await redis.calls(), { waiting, failed: 0 });
}

/** Waits until the runner has run all calls and the producer has recorded it. Then shows that each ran once. */
async function showRunOnce(demo: Demo, calls: readonly Call[]): Promise<void> {
  const { log } = demo;
  for (const call of calls) {
    await untilRun(demo, call);
    await log.ofCall("call.injected", call.callId);
  }
  const runs = log.runs();
  show.check(
    `all ${calls.length} calls are injected, and each ran once`,
    calls.map(({ callId }) => runs.get(callId)),
    calls.map(() => 1),
  );
}

function isOf(calls: readonly Call[], event: LoggedEvent): boolean {
  return calls.some(({ callId }) => callId === event["callId"]);
}
