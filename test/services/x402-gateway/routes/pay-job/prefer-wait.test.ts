import { describe, expect, test } from "vitest";
import type { Inject } from "../../../../../services/producer/producer.ts";
import { JOB_PATH, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { type Answer, openRaw } from "../../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { settlementIn, untilWaiting, usePreferWait, WAIT } from "./prefer-wait.ts";

const fixture = useX402();
const waits = usePreferWait(fixture);

describe("a client that prefers to wait gets the 202 of one that does not,", () => {
  /** Returns an answer without the values that differ between payments. */
  function shape({ status, headers, json }: Answer): object {
    const { date, "payment-response": told, location, "content-length": length, ...rest } = headers;
    return { status, rest, told: [date, told, location, length].map(Boolean), body: Object.keys(json()) };
  }

  async function expectUsual(x402: TestX402, prefer: string, run?: Inject): Promise<void> {
    const pay = () => (run === undefined ? x402.pay({ payer: fixture.payer }) : waits.payment(x402));
    const [first, second] = [await pay(), await pay()];
    if (run !== undefined) await waits.inject(run);
    const usual = await x402.post(first);
    const answer = await x402.post({ ...second, Prefer: prefer });
    expect(answer.status).toBe(202);
    expect(shape(answer)).toEqual(shape(usual));
  }

  test("when the time is up", async () => {
    const x402 = await fixture.gateway();
    await expectUsual(x402, "wait=3");
    const endings = x402.log.events.filter(({ event }) => event === "wait.ended");
    expect(endings.map(({ fields }) => fields["ending"])).toEqual(["timed_out"]);
  });

  onlyInLongRun(() => {
    test("when the time was up before the payment was settled", async () => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 1100, times: 1 });
      expect((await x402.post({ ...headers, Prefer: "wait=1" })).status).toBe(202);
      expect(x402.log.events.map(({ event }) => event)).not.toContain("wait.ended");
    });
  });

  test.each(sample(["wait=0", "wait=soon", "respond-async", 'foo="wait=9"']))(
    "at once if it says %s",
    async (prefer) => {
      const x402 = await fixture.gateway();
      await expectUsual(x402, prefer);
    },
  );

  onlyInLongRun(() => {
    test("at once if waiting is not allowed, and after the maximum time otherwise", async () => {
      const [none, some] = [0, 1].map((secs) => fixture.gateway({ results: { wait_secs_max: secs } }));
      await expectUsual(await (none as Promise<TestX402>), "wait=30");
      await expectUsual(await (some as Promise<TestX402>), "wait=30");
    });
  });

  test("at once if its job keeps no results", async () => {
    const x402 = await fixture.gateway({
      prices: { "7": { price_wei: "1000000000000000", keep_result: false } },
    });
    await expectUsual(x402, "wait=30");
  });

  onlyInLongRun(() => {
    test.each<[string, Inject]>([
      ["its result was too long to be kept", async () => ({ status: 200, body: "x".repeat(300_000) })],
      ["there is no result", async () => undefined],
    ])("as soon as its call has ended, if %s", async (_why, run) => {
      const x402 = await fixture.gateway();
      await expectUsual(x402, "wait=30", run);
    });
  });

  test("at once above the limit on waiting clients: no payment is refused because of it", async () => {
    const x402 = await fixture.gateway({ results: { waiters_max: 1 } });
    const first = x402.post({ ...(await x402.pay({ payer: fixture.payer })), ...WAIT });
    await untilWaiting(x402, 1);
    const others = await Promise.all([1, 2, 3].map(() => x402.pay({ payer: fixture.payer })));
    const answers = await Promise.all(others.map((headers) => x402.post({ ...headers, ...WAIT })));
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202]);
    await waits.endAll(x402);
    expect((await first).text).toBe("done");
  });

  test("at once when the gateway stops, with the proof that it was paid and access to the result", async () => {
    const x402 = await fixture.gateway();
    const answers = [1, 2].map(async () =>
      x402.post({ ...(await x402.pay({ payer: fixture.payer })), ...WAIT }),
    );
    await untilWaiting(x402, 2);
    x402.gateway.drain();
    for (const answer of await Promise.all(answers)) {
      expect([answer.status, answer.headers["connection"]]).toEqual([202, "close"]);
      expect(answer.json()).toHaveProperty("result_token");
      expect(settlementIn(answer)).toMatchObject({ success: true });
    }
  });
});

test("a repeat without a proof does not wait, and gets its 202 without a token, whether the call has ended or not", async () => {
  const x402 = await fixture.gateway();
  const headers = { ...(await x402.pay({ payer: fixture.payer })), ...WAIT };
  const first = x402.post(headers);
  await untilWaiting(x402, 1);
  const observe = async () => {
    const answer = await x402.post({ ...headers, Authorization: `Bearer rt_${"A".repeat(43)}` });
    expect([answer.status, answer.headers["idempotent-replayed"]]).toEqual([202, "true"]);
    expect(answer.text).not.toContain("rt_");
    expect(answer.headers).not.toHaveProperty("content-location");
  };
  await observe();
  expect(x402.gateway.waiting()).toBe(1);
  await waits.endAll(x402, "forty-two");
  expect((await first).text).toBe("forty-two");
  await observe();
});

onlyInLongRun(() => {
  test("a client that hangs up while it waits no longer occupies a slot, and has bought its job", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const lines = [
      "Host: x",
      "Content-Length: 5",
      `PAYMENT-SIGNATURE: ${headers["PAYMENT-SIGNATURE"]}`,
      "Prefer: wait=30",
    ];
    const raw = openRaw(x402.address, `POST ${JOB_PATH} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\nhello`);
    await untilWaiting(x402, 1);
    raw.socket.destroy();
    await untilWaiting(x402, 0);
    expect([(await fixture.charged()).length, (await x402.waiting()).length]).toEqual([1, 1]);
  });
});
