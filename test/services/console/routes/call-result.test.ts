import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("the result of a call is returned byte for byte as a download, whatever its content type", async () => {
    const id = await payments.buy();
    await payments.startProducer(async () => ({
      status: 200,
      contentType: "text/html",
      body: "<b>done</b>",
    }));
    await eventually(
      "it has ended",
      async () => (await payments.gateway.journal.findWithoutCall(id))?.state === "INJECTED",
    );
    const { get } = await fixture.start();
    const got = await get(`/api/v1/calls/${id}/result`, { as: "viewer" });
    expect([got.status, got.text]).toEqual([200, "<b>done</b>"]);
    expect(got.headers).toMatchObject({
      "content-type": "application/octet-stream",
      "content-disposition": `attachment; filename="${id}-result"`,
    });
    expect(await audited(payments.redis.client, ["reads"])).toMatchObject([
      { action: "read_result", call_id: id, by: "vera" },
    ]);
  });
});

describe("404", () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const fixture = useOperator({ redis });

  test("a call without a result gets 404 with the reason, and so does an unknown call", async () => {
    const id = await calls.add();
    const { get } = await fixture.start();
    const none = await get(`/api/v1/calls/${id}/result`);
    expect(refusalOf(none)).toEqual([404, "call.no_result"]);
    expect(none.json()["detail"]).toMatch(/^c_\w+ has no result: /);
    const unknown = await get(`/api/v1/calls/c_${"0".repeat(32)}/result`);
    expect(refusalOf(unknown)).toEqual([404, "call.unknown"]);
  });
});
