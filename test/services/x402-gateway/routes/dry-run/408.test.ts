import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { openRaw } from "../../../../support/http.ts";
import { DELEGATED, restrictedJobs } from "../../restricted-jobs.ts";

const fixture = useX402();

test("a dry-run whose caller signs for a body that does not arrive in time is refused with 408", async () => {
  const x402 = await fixture.gateway({ ...restrictedJobs(fixture.devnet), requestTimeoutMs: 300 });
  const head = `POST ${DELEGATED}/auth-dry-run HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n`;
  const raw = openRaw(x402.address, `${head}hel`);
  await expect.poll(raw.received, { timeout: 15_000 }).toMatch(/\}$/);
  expect(raw.received()).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"request\.timed_out"/);
  raw.socket.destroy();
});
