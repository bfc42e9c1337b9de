import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { asUser } from "../../../../fixtures/redis.ts";
import { x402Table } from "../../../../fixtures/x402.ts";

const payments = usePayments();
const { redis, devnet, postern } = payments;
const fixture = useOperator({ redis });

test("a chain that has no node cannot be audited: 409", async () => {
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
