import { beforeEach, expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { runIn } from "../../run-of.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });
/** The first block of a test: what others did is before it. */
let from_block: string;
beforeEach(async () => {
  await payments.devnet.chain.mine();
  from_block = String((await payments.devnet.chain.client.getBlockNumber()) + 1n);
});

test("an audit is a run, which any process tells of; it finds money that no payment explains", async () => {
  await payments.buy();
  const nonce = await payments.payOnChain();
  const { configDir } = payments.postern;
  const service = await fixture.start({ configDir });
  const begun = await service.post("/api/v1/payments/audits", { from_block });
  const location = String(begun.headers["location"]);
  expect([begun.status, begun.json()]).toMatchObject([
    202,
    { by: "otto", order: { from_block }, failure: null },
  ]);
  expect(location).toBe(`/api/v1/payments/audits/${begun.json()["id"]}`);

  const done = await runIn(service, location, "done");
  expect(done).toMatchObject({ ended_at: expect.any(String), failure: null });
  const other = await fixture.start({ configDir });
  const told = (await other.get(location)).json();
  expect(told).toEqual(done);
  expect(told).toMatchObject({
    result: {
      tokens: [
        {
          ...{
            symbol: "USDC",
            decimals: 6,
            from_block,
            matched: 1,
            matches: [expect.objectContaining({ position: expect.any(Number) })],
            unsettled: [],
            missing: [],
            surplus_refunds: [],
            more: 0,
          },
          orphans: [{ nonce, amount: "3200000", from: payments.payer.address.toLowerCase() }],
        },
      ],
    },
  });
});

test("an audit of no range looks at the newest blocks", async () => {
  const service = await fixture.start({ configDir: payments.postern.configDir });
  const begun = await service.post("/api/v1/payments/audits", {});
  expect(begun.status).toBe(202);
  expect(await runIn(service, String(begun.headers["location"]), "done")).toMatchObject({
    result: { tokens: [{ from_block: expect.any(String), to_block: expect.any(String) }] },
  });
});
