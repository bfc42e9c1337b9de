import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";

describe("200", () => {
  const payments = usePayments();
  const { redis } = payments;
  const calls = useFailedCalls({ redis });
  const fixture = useOperator({ redis });

  async function shown(id: string): Promise<Record<string, unknown>> {
    const { get } = await fixture.start({ configDir: payments.postern.configDir });
    const answer = await get(`/api/v1/calls/${id}`, { as: "viewer" });
    expect(answer.status).toBe(200);
    return answer.json();
  }

  const namesIn = (life: Record<string, unknown>) =>
    (life["timeline"] as { what: string }[]).map(({ what }) => what);

  test("the life of a failed call has its steps with their times, its error and its metadata, but not its body", async () => {
    const body = Buffer.from("a body that stays where it is");
    const [id = ""] = await calls.fail([{ body }]);
    const life = await shown(id);
    expect(life).toMatchObject({
      ...{ call_id: id, state: "failed", origin: "webhook", service_id: 7, job_id: 1, payment: null },
      ...{
        queue: { name: "webhook/7/1", as: "failed", due_at: null },
        endpoint: "/hooks/a",
        body_kept: true,
      },
      ...{ bytes: body.length, metadata: { "X-WEBHOOK-PATH": "/hooks/a" } },
      result: { what: "none kept", reason: "the call failed" },
      ...{ attempts: 1, replays: 0, forgotten_at: null },
    });
    expect(namesIn(life)).toEqual(["created", "attempt failed", "failed"]);
    expect(JSON.stringify(life)).not.toContain(body.toString("base64"));
  });

  test("the life of a call that was replayed twice has all attempts, failures and replays in order, and the total", async () => {
    const [id = "", other = ""] = await calls.fail([{}, {}], "runner.failed", "500 no");
    const { get, post } = await fixture.start({ configDir: payments.postern.configDir });
    const failAgain = async (): Promise<void> => {
      calls.runnerAnswers("runner.failed", "500 still no");
      await calls.startProducer();
      await calls.untilFailed(2);
      await calls.stopProducer();
    };
    await calls.replay(await calls.find(id), { selection: "by id", reason: "the database is back" });
    await failAgain();
    await post("/api/v1/failed/replays", { call_ids: [id], reason: "and so is the cache" });
    await eventually("it waits", async () => (await calls.calls.find(id)) === undefined);
    calls.runnerAnswers();
    await calls.startProducer();
    await eventually("it has ended", async () => (await calls.records.state(id)) === "INJECTED");
    await calls.stopProducer();
    const life = (await get(`/api/v1/calls/${id}`)).json();
    expect(life).toMatchObject({ state: "injected", attempts: 7, replays: 2 });
    const attempt = (n: number) => ({ what: "attempt failed", n, code: "runner.failed" });
    expect(life["timeline"]).toMatchObject([
      ...[attempt(1), attempt(2), attempt(3), { what: "failed", code: "runner.failed", reason: "500 no" }],
      { what: "replayed", by: "tester@fixture", reason: "the database is back" },
      ...[attempt(4), attempt(5), attempt(6), { what: "failed", reason: "500 still no" }],
      { what: "replayed", by: "otto", reason: "and so is the cache" },
      { what: "injected", n: 7 },
    ]);
    await post(`/api/v1/failed/${other}/discard`, { reason: "sent twice" });
    const discarded = (await get(`/api/v1/calls/${other}`)).json();
    expect(discarded).toMatchObject({ state: "discarded", attempts: 3, replays: 0 });
    expect((discarded["timeline"] as unknown[]).slice(-2)).toMatchObject([
      { what: "failed", code: "runner.failed" },
      { what: "discarded", by: "otto", reason: "sent twice" },
    ]);
  });

  test("the life of a paid call has its payment with the token's decimals, and the size of its result", async () => {
    const id = await payments.buy();
    await payments.startProducer(async () => ({
      status: 200,
      contentType: "text/plain",
      body: "the answer",
    }));
    await eventually(
      "it has ended",
      async () => (await payments.gateway.journal.findWithoutCall(id))?.state === "INJECTED",
    );
    const life = await shown(id);
    expect(life).toMatchObject({
      ...{ state: "injected", origin: "x402", queue: null },
      result: { what: "answer", reason: null, bytes: 10 },
      payment: { call_id: id, state: "injected", decimals: 6, disputed: false },
    });
    expect(namesIn(life)).toEqual(
      expect.arrayContaining(["claimed", "settled", "queued", "injected", "result"]),
    );
  });
});

describe("404", () => {
  const fixture = useOperator();

  test("an unknown call gets 404, and so does an invalid call id", async () => {
    const { get } = await fixture.start();
    const unknown = await get(`/api/v1/calls/c_${"0".repeat(32)}`);
    expect(refusalOf(unknown)).toEqual([404, "call.unknown"]);
    expect(unknown.json()["detail"]).toContain("is unknown: there was no such call");
    const wrong = await get("/api/v1/calls/c_1");
    expect(refusalOf(wrong)).toEqual([404, "request.not_found"]);
    expect(wrong.json()["detail"]).toContain("must be a call id: c_ and 32 lower-case hex digits");
  });
});
