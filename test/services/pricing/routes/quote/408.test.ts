import { expect, test } from "vitest";
import { listen } from "../../../../../shared/http/listen.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { usePricing } from "../../../../fixtures/pricing.ts";
import { sendRaw } from "../../../../support/http.ts";

const pricing = usePricing();
const ends = useEnds();

test("a request for a quote whose body does not arrive in time is refused with 408", async () => {
  const { service, log } = await pricing.engine();
  const server = await listen(service.handler, "127.0.0.1:0", { requestTimeoutMs: 400 });
  ends.defer(() => server.close(0));
  const head = "POST /pricing/jobs/42/3/quote HTTP/1.1\r\nHost: pricing\r\nContent-Length: 10\r\n\r\n";
  const answer = await sendRaw(server.address, `${head}half`);
  expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  expect(answer).toContain('"code":"request.timed_out"');
  expect(log.events.at(-1)).toMatchObject({ event: "quote.refused", fields: { code: "request.timed_out" } });
});
