import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import {
  idIn,
  JOB_PATH,
  PRICE,
  type TestX402Options,
  useX402,
  waitingSeen,
  withoutPayerFields,
} from "../../../../fixtures/x402.ts";
import { codeOf } from "../../../../support/books.ts";
import { type Answer, send } from "../../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { answerJson, startFaultyFacilitator } from "../../facilitator/faulty-facilitator.ts";

const fixture = useX402();
const ends = useEnds();

/** Returns the public data of an answer, without times and without the mark of a repeat. */
function publicPartOf(answer: Answer) {
  const { status, headers } = answer;
  const { date, connection, "keep-alive": keepAlive, "idempotent-replayed": replayed, ...others } = headers;
  const { "content-length": length, ...rest } = others;
  expect(Number(length)).toBe(answer.body.length);
  return { status, headers: rest, text: withoutPayerFields(answer) };
}

const isReplayed = ({ headers }: Answer) => headers["idempotent-replayed"] === "true";

test.each(sample(["pay", "payV1"] as const))(
  "one payment, sent ten times at once to two replicas, is one charge and one job, and gets one answer (%s)",
  async (pay) => {
    const replicas = [await fixture.gateway(), await fixture.gateway()];
    const headers = (await replicas[0]?.[pay]({ payer: fixture.payer })) ?? {};
    await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 300 });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => replicas[i % 2]?.post(headers) as Promise<Answer>),
    );
    const first = answers[0] as Answer;
    expect(first.status).toBe(202);
    for (const answer of answers) expect(publicPartOf(answer)).toEqual(publicPartOf(first));
    expect(answers.filter(isReplayed)).toHaveLength(9);
    expect((await fixture.asked()).settle).toBe(1);
    expect(await fixture.charged()).toEqual([PRICE]);
    expect(await replicas[1]?.waiting()).toHaveLength(1);
    const accepted = replicas.flatMap(({ log }) =>
      log.events.filter(({ event }) => event === "payment.accepted"),
    );
    const added = accepted.flatMap(({ fields }) => fields["addMs"] ?? []);
    expect([accepted.length, added]).toEqual([10, [expect.any(Number)]]);
  },
);

onlyInLongRun(() => {
  test("a replica about to refuse a payment that another replica accepts meanwhile answers like that replica", async () => {
    const facilitator = await startFaultyFacilitator();
    ends.defer(facilitator.close);
    let refuse = (): void => {};
    const asked = new Promise<void>((resolve) => {
      facilitator.on("verify", (req, res) => {
        refuse = () => answerJson({ isValid: false, invalidReason: "nonce_already_used" })(req, res);
        resolve();
      });
    });
    const [slow, quick] = [
      await fixture.gateway({ x402: { facilitator_url: facilitator.url, unpaid_verifies_per_payer: 1 } }),
      await fixture.gateway(),
    ];
    const headers = await quick.pay({ payer: fixture.payer });
    const late = slow.post(headers);
    await asked;
    const first = await quick.post(headers);
    refuse();
    expect(first.status).toBe(202);
    expect(publicPartOf(await late)).toEqual(publicPartOf(first));
    facilitator.on("verify", answerJson({ isValid: false, invalidReason: "another" }));
    const another = await slow.post(await slow.pay({ payer: fixture.payer }));
    expect(codeOf(another), "the payment that was made has used up no verification").toBe("payment.rejected");
  });

  test("a payment that two replicas verify at once uses up no verification of its payer at either", async () => {
    const x402 = { unpaid_verifies_per_payer: 1 };
    const replicas = [await fixture.gateway({ x402 }), await fixture.gateway({ x402 })];
    await fixture.devnet.control.fault({ on: "verify", kind: "slow", delayMs: 500 });
    for (let round = 1; round <= 3; round++) {
      const headers = (await replicas[0]?.pay({ payer: fixture.payer })) ?? {};
      const answers = await Promise.all(replicas.map((replica) => replica.post(headers)));
      expect(answers.map(({ status }) => status)).toEqual([202, 202]);
      expect((await fixture.asked()).verify).toBe(2 * round);
    }
  });
});

test("a repeat of a payment gets the first answer, and no facilitator is called", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const first = await x402.post(headers);
  await fixture.devnet.control.clearRequests();
  const again = await x402.post(headers);
  expect(publicPartOf(again)).toEqual(publicPartOf(first));
  expect([isReplayed(first), isReplayed(again)]).toEqual([false, true]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

const disabled = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
const changes: Record<string, Partial<TestX402Options>> = {
  "the price has changed": { prices: { "7": "9000000000000000" } },
  "the job is no longer for sale": { prices: { "8": "1" } },
  "the quote and the authorization have expired": { clock: () => Date.now() + 3_600_000 },
  "the job is disabled": { x402: { job_policies: disabled } },
  "the queue is full": { limits: { queue_depth_max: 1 } },
  "the limit on bodies is smaller": { x402: { body_limit_bytes: 1 } },
  "the quote secret has changed": { x402: { quote_secret: "quite another secret" } },
  "the token's domain has changed": { token: { eip3009_version: "9" } },
  "the token is no longer accepted": { token: { asset: "0x2222222222222222222222222222222222222222" } },
  "the facilitator is gone": { x402: { facilitator_url: "http://127.0.0.1:1" }, early: true },
};
test.each(sample(Object.entries(changes), 2))(
  "a repeat gets the answer of the first request, even if %s",
  async (_name, change) => {
    const before = await fixture.gateway();
    const headers = await before.pay({ payer: fixture.payer });
    const first = await before.post(headers);
    // Version 1 has no quote that fixes the price. Changes of x402 settings are tested with version 2, because version 1 needs no quote
    // secret.
    const other = await before["x402" in change ? "pay" : "payV1"]({ payer: fixture.payer });
    await fixture.stop(before);

    const after = await fixture.gateway(change);
    await expect.poll(() => waitingSeen(after), { timeout: 10_000 }).toBe(1);
    const again = await after.post(headers);
    expect(publicPartOf(again)).toEqual(publicPartOf(first));
    expect(isReplayed(again)).toBe(true);
    expect((await after.post(other)).status).not.toBe(202);
    expect(await fixture.charged()).toEqual([PRICE]);
  },
);

const NETWORKS = [
  ["is paid in another token", { asset: "0x2222222222222222222222222222222222222222" }],
  ["is gone", { network: "eip155:1", asset: "0x2222222222222222222222222222222222222222" }],
] as const;
onlyInLongRun(() => {
  test.each(NETWORKS)(
    "a repeat of a version 1 payment gets the answer of the first request, although its network %s",
    async (_name, token) => {
      const before = await fixture.gateway();
      const headers = await before.payV1({ payer: fixture.payer });
      const first = await before.post(headers);
      expect(first.status).toBe(202);
      await fixture.stop(before);

      const after = await fixture.gateway({ token, early: true });
      await eventually("Redis can be used", () => after.gateway.readiness().checks["redis"] === "always");
      expect(publicPartOf(await after.post(headers))).toEqual(publicPartOf(first));
      expect(codeOf(await after.post(headers, { body: "other" }))).toBe("payment.conflict");
      const { payload, ...rest } = JSON.parse(Buffer.from(headers["X-PAYMENT"] ?? "", "base64").toString());
      const unsigned = { ...rest, payload: { ...payload, signature: `0x${"1".repeat(130)}` } };
      const header = { "X-PAYMENT": Buffer.from(JSON.stringify(unsigned)).toString("base64") };
      // The refused payment belongs to no purchase, so the fixture's accounting does not see it.
      const refused = await send(after.address, { path: JOB_PATH, headers: header, body: "hello" });
      expect([refused.status === 202, refused.text.includes(idIn(first))]).toEqual([false, false]);
      expect(await fixture.charged()).toEqual([PRICE]);
    },
  );

  test("a repeat of a version 1 payment gets the first answer, even if no facilitator supports that version any longer", async () => {
    const before = await fixture.gateway();
    const headers = await before.payV1({ payer: fixture.payer });
    const first = await before.post(headers);
    const other = await before.payV1({ payer: fixture.payer });
    await fixture.stop(before);

    const facilitator = await startFaultyFacilitator();
    ends.defer(facilitator.close);
    const kinds = [{ x402Version: 2, scheme: "exact", network: fixture.devnet.network }];
    facilitator.on("supported", answerJson({ kinds }));
    const after = await fixture.gateway({ x402: { facilitator_url: facilitator.url } });
    expect(publicPartOf(await after.post(headers))).toEqual(publicPartOf(first));
    const refused = await after.post(other);
    expect([refused.status, codeOf(refused)]).toEqual([402, "payment.not_offered"]);
    expect(facilitator.asked.map(({ path }) => path)).toEqual(["/base/supported"]);
  });
});

test("a quoted price is charged even by a replica that sells at another price", async () => {
  const before = await fixture.gateway();
  const headers = await before.pay({ payer: fixture.payer });
  const after = await fixture.gateway({
    prices: { "7": "9000000000000000" },
    x402: { quote_secret: ["new", "a quote secret for these tests"] },
  });
  const answer = await after.post(headers);
  expect([answer.status, answer.json<{ receipt: { amount: string } }>().receipt?.amount]).toEqual([
    202,
    "3200000",
  ]);
  expect(await fixture.charged()).toEqual([PRICE]);
});
