import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../fixtures/operator.ts";
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

  test("the life of a failed call has what happened when, why it failed, its metadata, and not its body", async () => {
    const body = Buffer.from("a body that stays where it is");
    const [id = ""] = await calls.fail([{ body }]);
    const life = await shown(id);
    expect(life).toMatchObject({
      ...{ call_id: id, state: "failed", origin: "webhook", service_id: 7, job_id: 1, payment: null },
      ...{ queue: { name: "webhook/7/1", as: "failed", due_at: null }, path: "/hooks/a", body_kept: true },
      ...{ bytes: body.length, metadata: { "X-WEBHOOK-PATH": "/hooks/a" }, result: { what: "none kept" } },
      ...{ attempts_before: 0, forgotten_at: null },
    });
    expect(namesIn(life)).toEqual(["accepted", "queued", "attempt failed", "failed"]);
    expect(JSON.stringify(life)).not.toContain(body.toString("base64"));
  });

  test("the life of a paid call has its payment, with the decimals of its token, and the size of its result", async () => {
    const id = await payments.buy();
    await payments.startProducer(async () => ({
      status: 200,
      contentType: "text/plain",
      body: "the answer",
    }));
    await eventually(
      "it has ended",
      async () => (await payments.gateway.journal.look(id))?.state === "INJECTED",
    );
    const life = await shown(id);
    expect(life).toMatchObject({
      ...{ state: "injected", origin: "x402", queue: null },
      result: { what: "answer", bytes: 10 },
      payment: { call_id: id, state: "injected", decimals: 6, disputed: false },
    });
    expect(namesIn(life)).toEqual(
      expect.arrayContaining(["claimed", "settled", "queued", "injected", "result"]),
    );
  });
});

describe("404", () => {
  const fixture = useOperator();

  test("a call of which nothing is known is 404, and so is what is no call id", async () => {
    const { get } = await fixture.start();
    const unknown = await get(`/api/v1/calls/c_${"0".repeat(32)}`);
    expect(refusalOf(unknown)).toEqual([404, "call.unknown"]);
    expect(unknown.json()["detail"]).toContain("nothing is known of such a call");
    expect(refusalOf(await get("/api/v1/calls/c_1"))).toEqual([404, "request.not_found"]);
  });
});
