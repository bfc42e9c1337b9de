import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { PaymentJournal } from "../../../../shared/payments/journal.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { claimPayment } from "../../../support/made-payment.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

const BODY = Buffer.from('{"order":7}');
const KEEPS = { secs: 3600, bytes_max: 100_000 };

const hasEnded = (id: string) =>
  eventually("it has ended", async () => (await calls.records.state(id)) === "INJECTED");

/** Makes a call that its runner has accepted. */
async function delivered({ keepDelivered = KEEPS as typeof KEEPS | undefined } = {}): Promise<string> {
  const id = await calls.add({ body: BODY, ...(keepDelivered && { keepDelivered }) });
  await calls.startProducer();
  await hasEnded(id);
  await calls.stopProducer();
  return id;
}

describe("200", () => {
  test("a delivered webhook is replayed as a new call that names it, and a second click makes no second call", async () => {
    const id = await delivered();
    const { get, post } = await fixture.start();
    const order = { reason: "the runner lost it", request_id: "a-1" };
    const clicks = await Promise.all([1, 2].map(() => post(`/api/v1/calls/${id}/replay`, order)));
    expect(clicks.map(({ status }) => status)).toEqual([200, 200]);
    const answers = clicks.map((each) => each.json());
    expect(answers.map((each) => each["changed"]).toSorted()).toEqual([false, true]);
    const again = String(answers[0]?.["call_id"]);
    expect(answers[1]).toMatchObject({ call_id: again, replay_of: id });
    await calls.startProducer();
    await hasEnded(again);
    expect(calls.injected.filter((each) => each === again || each === id)).toEqual([id, again]);
    expect((await get(`/api/v1/calls/${again}`)).json()).toMatchObject({
      ...{ replay_of: id, origin: "webhook", endpoint: "/hooks/a", body_kept: true, bytes: BODY.length },
    });
    expect(await calls.audited()).toMatchObject([
      { action: "replay_delivered", call_id: id, by: "otto", selection: `as ${again}` },
    ]);
  });

  test("the body of a kept delivered webhook can be read, with an audit line, until it is forgotten", async () => {
    const id = await delivered();
    const { get, post } = await fixture.start();
    const got = await get(`/api/v1/calls/${id}/body`, { as: "viewer" });
    expect([got.status, got.body]).toEqual([200, BODY]);
    expect((await get(`/api/v1/calls/${id}`)).json()).toMatchObject({
      ...{ state: "injected", body_kept: true, content_type: "application/json" },
      metadata: { "X-WEBHOOK-PATH": "/hooks/a" },
    });
    expect(await audited(redis.client, ["reads"])).toMatchObject([
      { action: "read_body", call_id: id, by: "vera" },
    ]);
    await post(`/api/v1/calls/${id}/forget`, { reason: "the law" });
    expect(refusalOf(await get(`/api/v1/calls/${id}/body`))).toEqual([404, "call.no_body"]);
    const refused = await post(`/api/v1/calls/${id}/replay`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([404, "call.no_body"]);
    expect(await redis.client.exists(keys.kept(id))).toBe(0);
  });
});

describe("400", () => {
  test.each([[{}], [{ reason: " " }], [{ reason: "x", request_id: "a b" }], [{ reason: "x", force: true }]])(
    "a replay without a valid reason is refused: %j",
    async (json) => {
      const id = await delivered();
      const { post } = await fixture.start();
      const refused = await post(`/api/v1/calls/${id}/replay`, json);
      expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    },
  );

  test("a viewer cannot replay", async () => {
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/calls/c_${"0".repeat(32)}/replay`, { reason: "x" }, { as: "viewer" });
    expect(refusalOf(refused)).toEqual([403, "operator.forbidden"]);
  });
});

describe("404", () => {
  test("a call that is unknown or not kept cannot be replayed", async () => {
    const id = await calls.add({ body: BODY });
    const { post } = await fixture.start();
    const waits = await post(`/api/v1/calls/${id}/replay`, { reason: "x" });
    expect(refusalOf(waits)).toEqual([404, "call.no_body"]);
    expect(waits.json()["detail"]).toContain("keep_delivered");
    const none = await post(`/api/v1/calls/c_${"0".repeat(32)}/replay`, { reason: "x" });
    expect(refusalOf(none)).toEqual([404, "call.unknown"]);
  });
});

describe("409", () => {
  test("a paid call is never replayed as a new one", async () => {
    const token = { network: "eip155:84532", asset: `0x${"5".repeat(40)}` };
    const id = await claimPayment(new PaymentJournal(redis.partition), token);
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/calls/${id}/replay`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([409, "call.paid"]);
  });
});
