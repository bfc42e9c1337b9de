import { randomUUID } from "node:crypto";
import { shortId } from "../event-line.ts";
import { KECCAK256_OF_HELLO } from "../known-answer.ts";
import type { Demo, Scene } from "../scene.ts";
import type { Webhook } from "../sender.ts";
import type { AcceptedCall } from "../tally.ts";

const STEPS = 3;
/** New in every run: a Redis of REDIS_URL remembers those of earlier ones. */
const DELIVERY = { "X-Delivery-Id": randomUUID() };

/** One call by each way to authenticate, and what the runner made of it; then a delivery that comes twice. */
export const fourCredentials: Scene = {
  title: "Four ways to authenticate, and the results at the runner",
  async play(demo) {
    const open = await accepted(demo, { endpoint: demo.endpoint("none"), body: "no credential, here" });
    const bearer = await accepted(demo, {
      endpoint: demo.endpoint("bearer"),
      body: '{"sent":"with a bearer token"}',
      headers: DELIVERY,
    });
    const hmac = await accepted(demo, {
      endpoint: demo.endpoint("hmac-sha256"),
      body: "hello",
      contentType: "text/plain",
    });
    const apiKey = await accepted(demo, { endpoint: demo.endpoint("api-key"), body: `{"steps":${STEPS}}` });

    await demo.runner.untilDone([open, bearer, hmac, apiKey]);
    await showResults(demo, { open, bearer, hmac, apiKey });
    await showRepeat(demo, bearer);
  },
};

async function accepted({ stage, sender, tally }: Demo, webhook: Webhook): Promise<AcceptedCall> {
  const { path, auth } = webhook.endpoint;
  const { status, callId } = await sender.send(webhook);
  stage.check(`202  ${auth.padEnd(12)} ${path.padEnd(15)} call ${shortId(callId)}`, status, 202);
  const call = tally.accepted.get(callId);
  if (call === undefined) throw new Error(`expected: ${path} accepts a call`);
  return call;
}

type Calls = Record<"open" | "bearer" | "hmac" | "apiKey", AcceptedCall>;

async function showResults(
  { stage, runner, world }: Demo,
  { open, bearer, hmac, apiKey }: Calls,
): Promise<void> {
  for (const call of [open, bearer]) {
    const { text } = await runner.askAgain(call);
    stage.check(
      `echo      of ${call.path.padEnd(15)} answered the body as it was sent: ${call.body}`,
      text,
      call.body,
    );
  }
  const { text } = await runner.askAgain(hmac);
  stage.check(
    `keccak256 of "hello" is ${KECCAK256_OF_HELLO}`,
    JSON.parse(text)["keccak256"],
    KECCAK256_OF_HELLO,
  );

  const isOfSlow = (step: number) => (event: Record<string, unknown>) =>
    event["event"] === "job.progressed" && event["callId"] === apiKey.callId && event["step"] === step;
  const last = await world.logs.runner.first("the slow job's last step in the log", isOfSlow(STEPS));
  stage.check(`slow      told its progress in the log, ${STEPS} steps of ${STEPS}`, last["steps"], STEPS);
  stage.log("runner", last);
}

async function showRepeat({ stage, sender, endpoint }: Demo, { callId, body }: AcceptedCall): Promise<void> {
  const again = await sender.send({ endpoint: endpoint("bearer"), body, headers: DELIVERY });
  const said = [again.status, again.callId, again.headers["idempotent-replayed"]];
  stage.check("the bearer delivery, sent again under its delivery id, is the same call", said, [
    202,
    callId,
    "true",
  ]);
}
