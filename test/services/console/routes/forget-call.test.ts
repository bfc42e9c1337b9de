import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { useRedis } from "../../../fixtures/redis.ts";

describe("200", () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const fixture = useOperator({ redis });

  test("a forgotten call has lost all data from its sender, and the audit log says who did it and why", async () => {
    const [id = ""] = await calls.fail([{ path: "/canary" }]);
    const { get, post } = await fixture.start();
    const forgotten = await post(`/api/v1/calls/${id}/forget`, { reason: "the sender has asked" });
    expect([forgotten.status, forgotten.json()]).toEqual([200, { changed: true, forgotten_before: null }]);
    const life = await get(`/api/v1/calls/${id}`);
    expect(life.json()).toMatchObject({ body_kept: false, metadata: null, forgotten_at: expect.any(String) });
    expect(life.text).not.toContain("canary");
    expect(await calls.audited()).toMatchObject([
      { action: "forget", call_id: id, by: "otto", reason: "the sender has asked" },
    ]);
    const again = await post(`/api/v1/calls/${id}/forget`, { reason: "once more" });
    expect(again.json()).toEqual({ changed: false, forgotten_before: life.json()["forgotten_at"] });
  });
});

describe("400", () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const fixture = useOperator({ redis });

  test("a call is not forgotten without a reason: 400", async () => {
    const [id = ""] = await calls.fail([{}]);
    const { post } = await fixture.start();
    for (const body of [{}, { reason: " " }])
      expect(refusalOf(await post(`/api/v1/calls/${id}/forget`, body))).toEqual([400, "request.malformed"]);
    expect(await calls.calls.find(id)).toBeDefined();
  });
});

describe("404", () => {
  const fixture = useOperator();

  test("an unknown call cannot be forgotten: 404", async () => {
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/calls/c_${"0".repeat(32)}/forget`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([404, "call.unknown"]);
  });
});

describe("409", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("a waiting call, or one whose payment is undecided, is not forgotten: 409 with its state", async () => {
    const [waiting, settling, inReview] = [
      await payments.buy(),
      await payments.claim(),
      await payments.claimForReview(),
    ];
    const { post } = await fixture.start();
    const forget = async (id: string) => {
      const answer = await post(`/api/v1/calls/${id}/forget`, { reason: "x" });
      return [...refusalOf(answer), answer.json()["detail"]];
    };
    expect(await forget(waiting)).toEqual([
      409,
      "call.in_hand",
      expect.stringContaining("the call is waiting"),
    ]);
    expect(await forget(settling)).toEqual([409, "call.undecided", expect.stringContaining("not known yet")]);
    expect(await forget(inReview)).toEqual([409, "call.undecided", expect.stringContaining("in review")]);
  });
});
