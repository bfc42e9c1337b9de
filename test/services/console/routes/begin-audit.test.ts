import { beforeEach, describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { x402Table } from "../../../fixtures/x402.ts";
import { audited } from "../../../support/audited.ts";
import { runIn } from "../run-of.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

describe("202", () => {
  /** First block of a test, which excludes transfers of earlier tests. */
  let from_block: string;
  beforeEach(async () => {
    await payments.devnet.chain.mine();
    from_block = String((await payments.devnet.chain.client.getBlockNumber()) + 1n);
  });

  test("an audit is a bulk operation that any process can show, and it finds transfers without a payment", async () => {
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
    expect(location).toBe(`/api/v1/bulk/${begun.json()["id"]}`);
    expect(await audited(payments.redis.client)).toMatchObject([
      {
        ...{ action: "begin_audit", run: begun.json()["id"], by: "otto" },
        selection: `--from-block ${from_block}`,
      },
    ]);

    const done = await runIn(service, location, "done");
    expect(done).toMatchObject({ ended_at: expect.any(String), failure: null });
    const other = await fixture.start({ configDir });
    const reply = (await other.get(location)).json();
    expect(reply).toEqual(done);
    expect(reply).toMatchObject({
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

  test("an audit without a range covers the newest blocks", async () => {
    const service = await fixture.start({ configDir: payments.postern.configDir });
    const begun = await service.post("/api/v1/payments/audits", {});
    expect(begun.status).toBe(202);
    expect(await runIn(service, String(begun.headers["location"]), "done")).toMatchObject({
      result: { tokens: [{ from_block: expect.any(String), to_block: expect.any(String) }] },
    });
  });
});

describe("400", () => {
  test.each([
    [{ from_block: 7 }, /^from_block: /],
    [{ from_block: "first" }, /^from_block: must be a block number/],
    [{ from_block: "9", to_block: "8" }, /^from_block: must not be after to_block: 9 is after 8/],
    [{ network: "eip155:1" }, /^network: must be one of eip155:/],
    [{ since: "today" }, /since/],
  ])("an audit of %j is refused with 400, and the answer says what is wrong", async (order, detail) => {
    const { post } = await fixture.start({ configDir: payments.postern.configDir });
    const refused = await post("/api/v1/payments/audits", order);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect(refused.json()["detail"]).toMatch(detail);
  });
});

describe("409", () => {
  const { redis, devnet, postern } = payments;

  test("a chain without a node cannot be audited: 409", async () => {
    const { accepted_tokens: tokens, ...x402 } = x402Table({ devnet });
    const [{ rpc_url: _, ...token } = {}] = tokens as Record<string, string>[];
    postern.configure({
      postern: { redis: { url: asUser(redis.url, "operator") } },
      x402: { ...x402, trust_facilitator: true, accepted_tokens: [token] },
      job_pricing: { "1": { "7": "1000000000000000" } },
    });
    const { post } = await fixture.start({ configDir: postern.configDir });
    const refused = await post("/api/v1/payments/audits", {});
    expect(refusalOf(refused)).toEqual([409, "token.unconfigured"]);
  });

  test("without the tokens' configuration nothing can be audited: 409", async () => {
    const { post } = await fixture.start();
    expect(refusalOf(await post("/api/v1/payments/audits", {}))).toEqual([409, "token.unconfigured"]);
  });
});
