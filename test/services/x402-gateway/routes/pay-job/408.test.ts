import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { openRaw } from "../../../../support/http.ts";

const fixture = useX402();

test("a paid request whose body does not arrive in time is refused with 408, and its payment can be sent again", async () => {
  const x402 = await fixture.gateway({ requestTimeoutMs: 300 });
  const headers = await x402.pay({ payer: fixture.payer });
  const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n`;
  const raw = openRaw(x402.address, `${head}PAYMENT-SIGNATURE: ${headers["PAYMENT-SIGNATURE"]}\r\n\r\nhel`);
  await expect.poll(raw.received, { timeout: 15_000 }).toMatch(/\}$/);
  expect(raw.received()).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"request\.timed_out"/);
  raw.socket.destroy();
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect((await x402.post(headers)).status).toBe(202);
});
