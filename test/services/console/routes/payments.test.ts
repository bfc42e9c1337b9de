import { beforeEach, describe, expect, test } from "vitest";
import { refusalOf, type TestOperator, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { LONG_RUN, sample } from "../../../support/long-run.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  type Page = { payments: Record<string, unknown>[]; next: string | null };

  let service: TestOperator;
  beforeEach(async () => {
    service = await fixture.start({ configDir: payments.postern.configDir });
  });

  async function list(query = ""): Promise<Page> {
    const answer = await service.get(`/api/v1/payments${query}`, { as: "viewer" });
    expect(answer.status).toBe(200);
    return answer.json<Page>();
  }
  const idsIn = ({ payments: found }: Page) => found.map(({ call_id }) => call_id);

  test("the list of payments has the newest first, with terms and the decimals of their token, and no body", async () => {
    const older = await payments.claim({ now: 1000 });
    const newer = await payments.claim({ now: 2000 });
    const all = await list();
    expect([idsIn(all), all.next]).toEqual([[newer, older], null]);
    expect(all.payments[0]).toMatchObject({
      ...{ call_id: newer, state: "settling", claimed_at: "1970-01-01T00:00:02.000Z", decimals: 6 },
      ...{ settlement: null, proven: false, contradicted: false, disputed: false, dispatches: 1 },
      terms: { payer: payments.payer.address.toLowerCase(), symbol: "USDC", amount: "3200000" },
    });
    expect(JSON.stringify(all)).not.toContain(Buffer.from("hello").toString("base64"));
  });

  test("payments are filtered by state, payer, time, whether they are open, disputed or acknowledged", async () => {
    const { journal } = payments.gateway;
    const other = await payments.claim({ payer: `0x${"11".repeat(20)}`, now: 1000 });
    const disputed = await payments.buy();
    await journal.markDisputed(disputed, "the chain says: expired");
    const acknowledged = await payments.buy();
    await journal.markDisputed(acknowledged, "the chain says: expired");
    const act = { at: 1, action: "acknowledge", callId: acknowledged, by: "me", selection: "by id" } as const;
    await journal.acknowledge(acknowledged, { by: "me", reason: "seen" }, act);
    const review = await payments.claimForReview();
    const picked: [string, string[]][] = [
      ["?state=review", [review]],
      ["?state=settling", [other]],
      ["?state=queued", [acknowledged, disputed]],
      [`?payer=${payments.payer.address}`, [review, acknowledged, disputed]],
      ["?disputed=true", [disputed]],
      ["?acknowledged=true", [acknowledged]],
      ["?acknowledged=true&disputed=true", []],
      ["?open=true", [review, acknowledged, disputed, other]],
      ["?until=1970-01-01T00:00:01Z", [other]],
      ["?state=settling&since=1970-01-01T00:00:02Z", []],
      ["?state=void", []],
    ];
    for (const [query, expected] of picked)
      expect([query, idsIn(await list(query))]).toEqual([query, expected]);
  });

  const [COUNT, LATER, PAGE] = LONG_RUN ? [230, 10, 50] : [46, 4, 10];

  test.each(sample(["", "&state=settling"]))(
    "consecutive pages have each payment exactly once, also with many in one millisecond%s",
    async (filter) => {
      const ids = await Promise.all(
        Array.from({ length: COUNT }, (_, i) =>
          payments.claim({
            payer: `0x${String(i).padStart(40, "0")}`,
            now: i < COUNT - LATER ? 2000 : 1000 + i,
          }),
        ),
      );
      const met: unknown[] = [];
      let page = await list(`?limit=${PAGE}${filter}`);
      for (;;) {
        met.push(...idsIn(page));
        if (page.next === null) break;
        page = await list(`?limit=${PAGE}${filter}&cursor=${page.next}`);
      }
      expect(met).toHaveLength(ids.length);
      expect(new Set(met)).toEqual(new Set(ids));
    },
  );
});

describe("400", () => {
  const fixture = useOperator();

  test.each([
    ["state=lost", /^state: /],
    ["payer=alice", /^payer: must be an address/],
    ["disputed=yes", /^disputed: /],
    ["acknowledged=yes", /^acknowledged: /],
    ["since=yesterday", /^since: /],
    ["cursor=nonsense", /^cursor: must be the `next`/],
    ["limit=0", /^limit: /],
  ])(
    "the list of payments is refused with 400 for %s, and the answer says what is wrong",
    async (query, detail) => {
      const { get } = await fixture.start();
      const refused = await get(`/api/v1/payments?${query}`);
      expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
      expect(refused.json()["detail"]).toMatch(detail);
    },
  );
});
