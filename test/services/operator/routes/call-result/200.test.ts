import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

test("the result of a call comes as the bytes that its runner gave, whatever type it said that they have", async () => {
  const id = await payments.buy();
  await payments.startProducer(async () => ({ status: 200, contentType: "text/html", body: "<b>done</b>" }));
  await eventually(
    "it has ended",
    async () => (await payments.gateway.journal.look(id))?.state === "INJECTED",
  );
  const { get } = await fixture.start();
  const got = await get(`/api/v1/calls/${id}/result`, { as: "viewer" });
  expect([got.status, got.text]).toEqual([200, "<b>done</b>"]);
  expect(got.headers).toMatchObject({
    "content-type": "application/octet-stream",
    "content-disposition": `attachment; filename="${id}-result"`,
  });
});
