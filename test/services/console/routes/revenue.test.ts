import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { PaymentJournal } from "../../../../shared/payments/journal.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useReports } from "../../../fixtures/reports.ts";
import { queuePayment } from "../../../support/made-payment.ts";
import { tokenTable } from "../../../support/rate-tokens.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const fixture = useOperator();

describe("200", () => {
  const reports = useReports(fixture.redis);

  test("revenue is listed by day, token and job, with the decimals of a configured token", async () => {
    const configDir = join(tempDir(), "config");
    const token = tokenTable("3200");
    writeConfig(configDir, { postern: {}, x402: { accepted_tokens: [token] }, job_pricing: {} });
    const { log, flush } = await reports.start({ kind: "x402" });
    const { network, asset } = token;
    const settled = { network, asset, amount: "1250000", serviceId: 1, jobIndex: 7 };
    for (let i = 0; i < 2; i++) log.info("payment.settled", settled);
    log.info("payment.settled", { ...settled, asset: `0x${"11".repeat(20)}` });
    await flush();
    const { get } = await fixture.start({ configDir });
    const { earned } = (await get("/api/v1/revenue?days=1", { as: "viewer" })).json<{ earned: unknown[] }>();
    const day = new Date().toISOString().slice(0, 10);
    expect(earned).toHaveLength(2);
    expect(earned).toEqual(
      expect.arrayContaining([
        {
          ...{ day, network, asset, symbol: "USDC", decimals: 6, job: "1/7" },
          ...{ payments: 2, amount: "2500000", disputes: 0, disputed: "0", refunds: 0, refunded: "0" },
        },
        expect.objectContaining({ symbol: null, decimals: null, payments: 1 }),
      ]),
    );
  });

  test("revenue says which payments the chain contradicts, also after they are acknowledged", async () => {
    const terms = { network: "eip155:1", asset: `0x${"22".repeat(20)}` };
    const journal = new PaymentJournal(fixture.redis.partition);
    const [, id = ""] = [await queuePayment(journal, terms), await queuePayment(journal, terms)];
    const { log, flush } = await reports.start({ kind: "x402" });
    const settled = { ...terms, amount: "3200000", serviceId: 1, jobIndex: 7 };
    for (let i = 0; i < 2; i++) log.info("payment.settled", settled);
    await flush();
    await journal.markDisputed(id, "the chain says: expired");
    const { get, post } = await fixture.start();
    const acknowledged = { verdict: "acknowledged", reason: "seen" };
    expect((await post(`/api/v1/payments/${id}/resolve`, acknowledged)).status).toBe(200);
    const { earned } = (await get("/api/v1/revenue")).json<{ earned: { asset: string }[] }>();
    expect(earned.find(({ asset }) => asset === terms.asset)).toMatchObject({
      ...{ payments: 2, amount: "6400000", disputes: 1, disputed: "3200000", refunds: 0 },
    });
  });
});

describe("400", () => {
  test.each(["0", "91", "-1", "ten"])("revenue of %s days is refused", async (days) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/revenue?days=${days}`))).toEqual([400, "request.malformed"]);
  });
});
