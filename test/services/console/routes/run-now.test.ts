import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { delayCalls } from "../../../support/delay-calls.ts";

const payments = usePayments();
const { redis } = payments;
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });
const why = { reason: "the runner is repaired" };

describe("204", () => {
  test("a delayed call, paid or not, becomes waiting, with its audit line", async () => {
    await calls.add();
    const [webhook = ""] = await delayCalls(redis.partition);
    const paid = await payments.buy();
    const { get, post } = await fixture.start();
    const { service_id, job_id } = (await get(`/api/v1/calls/${paid}`)).json();
    await delayCalls(redis.partition, `${service_id}/${job_id}`);
    for (const id of [webhook, paid]) {
      expect((await get(`/api/v1/calls/${id}`)).json()).toMatchObject({ queue: { as: "delayed" } });
      expect((await post(`/api/v1/calls/${id}/run-now`, why)).status).toBe(204);
      expect((await get(`/api/v1/calls/${id}`)).json()).toMatchObject({
        ...{ state: "queued", queue: { as: "waiting", due_at: null } },
        timeline: expect.arrayContaining([
          expect.objectContaining({ what: "run early", by: "otto", reason: why.reason }),
        ]),
      });
    }
    expect(await calls.audited()).toMatchObject(
      [webhook, paid].map((id) => ({ action: "run_now", call_id: id, by: "otto", reason: why.reason })),
    );
  });
});

describe("400", () => {
  test("without a reason a call is not run: 400", async () => {
    await calls.add();
    const [id] = await delayCalls(redis.partition);
    const { post } = await fixture.start();
    expect(refusalOf(await post(`/api/v1/calls/${id}/run-now`, {}))).toEqual([400, "request.malformed"]);
  });
});

describe("404", () => {
  test("an unknown call gets 404", async () => {
    const { post } = await fixture.start();
    const refused = await post(`/api/v1/calls/c_${"0".repeat(32)}/run-now`, why);
    expect(refusalOf(refused)).toEqual([404, "call.unknown"]);
  });
});

describe("409", () => {
  test("a call that waits or has failed is not delayed: 409 with its state", async () => {
    const [failed = ""] = await calls.fail([{}]);
    const waits = await calls.add();
    const { post } = await fixture.start();
    for (const [id, state] of [
      [failed, "failed"],
      [waits, "waiting"],
    ]) {
      const refused = await post(`/api/v1/calls/${id}/run-now`, why);
      expect([...refusalOf(refused), refused.json()["detail"]]).toEqual([
        ...[409, "call.not_delayed", `${id} is not delayed; the call is ${state}`],
      ]);
    }
    expect(await calls.audited()).toEqual([]);
  });
});
