import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { failPaid, USDC } from "../paid-failures.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("204", () => {
  test("a discarded call is deleted with its body, and the audit log says who did it and why", async () => {
    const [id = ""] = await calls.fail([{}]);
    const { post } = await fixture.start();
    expect((await post(`/api/v1/failed/${id}/discard`, { reason: "a test call" })).status).toBe(204);
    expect(await redis.client.exists(keys.inQueue("webhook/7/1", id))).toBe(0);
    expect(await calls.records.state(id)).toBe("DISCARDED");
    expect(await calls.audited()).toMatchObject([
      { action: "discard", call_id: id, by: "otto", selection: "by id", reason: "a test call" },
    ]);
  });

  test("after a discard the body of a paid call cannot be read, and its payment is kept", async () => {
    const [id = ""] = await failPaid(calls, [{ ...USDC, amount: "100", isProven: false }]);
    const { get, post } = await fixture.start();
    expect((await get(`/api/v1/calls/${id}/body`)).status).toBe(200);
    expect((await post(`/api/v1/failed/${id}/discard`, { reason: "a test call" })).status).toBe(204);
    expect(refusalOf(await get(`/api/v1/calls/${id}/body`))).toEqual([404, "call.no_body"]);
    const life = (await get(`/api/v1/calls/${id}`)).json();
    expect(life).toMatchObject({ state: "discarded", body_kept: false, payment: { state: "discarded" } });
    // A gateway needs this to settle again if a reorganisation removes the transaction.
    expect(await redis.client.hexists(keys.payment(id), "request")).toBe(1);
  });
});

describe("400", () => {
  test("a call is not discarded without a reason: 400", async () => {
    const [id = ""] = await calls.fail([{}]);
    const { post } = await fixture.start();
    expect(refusalOf(await post(`/api/v1/failed/${id}/discard`, {}))).toEqual([400, "request.malformed"]);
    expect(await calls.calls.count({})).toBe(1);
  });
});

describe("404", () => {
  test("an unknown call cannot be discarded: 404", async () => {
    const { post } = await fixture.start();
    const answer = await post(`/api/v1/failed/c_${"0".repeat(32)}/discard`, { reason: "x" });
    expect(refusalOf(answer)).toEqual([404, "call.unknown"]);
  });
});

describe("409", () => {
  test("a call that has not failed cannot be discarded: 409", async () => {
    const id = await calls.add();
    const { post } = await fixture.start();
    const answer = await post(`/api/v1/failed/${id}/discard`, { reason: "x" });
    expect(refusalOf(answer)).toEqual([409, "call.not_failed"]);
  });
});
