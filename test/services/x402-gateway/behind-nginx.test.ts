import type { TomlTable } from "smol-toml";
import { expect, test } from "vitest";
import { parseJobPricing } from "../../../shared/config/job-pricing-toml.ts";
import { x402Toml } from "../../../shared/config/x402-toml.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { headWarnings, requiredHeaderBytes } from "../../../shared/pricing/offer-size.ts";
import { useBoughtCalls } from "../../fixtures/bought-call.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { JOB_PATH, requiredIn, useX402, x402Table } from "../../fixtures/x402.ts";
import { readStream } from "../../support/event-source.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { needs } from "../../support/needs.ts";
import { startProxy } from "../../support/nginx.ts";
import { toPriceList } from "../../support/price-list.ts";
import { tellProgressOn } from "../../support/results.ts";
import { DECLARED, PRINTED, schemaOfBytes } from "./job-inputs.ts";
import { manyTokens } from "./many-tokens.ts";
import { PERMIT2_USDC, permit2Token } from "./permit2-gateway.ts";

const fixture = useX402();
const ends = useEnds();
const calls = useBoughtCalls(fixture);

/** Sends a request for a 402 with this many tokens through an nginx whose memory pages have 4 kB. */
async function through(lines: string, tokens: number, query = "") {
  const settings = { ...manyTokens(fixture.devnet, tokens - 1), public_url: "https://jobs.example.com" };
  const x402 = await fixture.gateway({ x402: settings, early: true });
  const nginx = await startProxy(x402.address, lines);
  ends.defer(nginx.stop);
  return send(nginx.address, { path: `${JOB_PATH}${query}`, body: "" });
}

const STOCK = "proxy_buffer_size 4k;";

onlyInLongRun(() => {
  test(
    "nginx with default settings passes a 402 with five tokens but not with six; it passes six with larger buffers or one network",
    needs("nginx"),
    async () => {
      expect((await through(STOCK, 5)).status).toBe(402);
      expect((await through(STOCK, 6)).status).toBe(502);
      const roomy = await through("proxy_buffer_size 16k; proxy_buffers 8 16k;", 6);
      expect([roomy.status, requiredIn(roomy).accepts.length]).toEqual([402, 6]);
      const narrow = await through(STOCK, 6, "?network=eip155:1003");
      expect([narrow.status, requiredIn(narrow).accepts.length]).toEqual([402, 1]);
    },
  );

  test(
    "nginx with default settings passes each event of a stream at once, and passes the id of a client that reconnects",
    needs("nginx"),
    async () => {
      const x402 = await fixture.gateway();
      const { id, token } = await calls.buy(x402);
      const nginx = await startProxy(x402.address, "");
      ends.defer(nginx.stop);
      const url = `http://${nginx.address}/x402/calls/${id}/events`;
      const stream = await readStream(url, { token });
      await eventually("it receives the state while the answer is open", () => stream.events.length === 2);
      const lastEventId = stream.events.at(-1)?.id ?? "";
      stream.close();
      const again = await readStream(url, { token, lastEventId });
      await tellProgressOn(fixture.redis.partition)(id, { at: 5, json: '{"step":1}' });
      await eventually("what it does not know", () => again.events.length === 2);
      expect(again.events.at(-1)).toMatchObject({ event: "progress", data: { progress: { step: 1 } } });
      again.close();
    },
  );
});

test.each(sample([3, 1, 8]))(
  "the estimated size of a 402 with %i tokens at load equals its real size",
  async (tokens) => {
    const settings = manyTokens(fixture.devnet, tokens - 1);
    const gateway = await fixture.gateway({ x402: settings, early: true });
    const header = String((await gateway.post()).headers["payment-required"]);
    const table = x402Table({ devnet: fixture.devnet, x402: settings });
    const prices = toPriceList([{ serviceId: 1, jobIndex: 7, priceWei: 10n ** 15n }]);
    expect(header).toHaveLength(
      requiredHeaderBytes(x402Toml({ env: {} }).parse(table), prices, "Payment is required"),
    );
  },
);

const GASLESS: readonly [string, () => TomlTable][] = [
  ["USDC with permits", () => PERMIT2_USDC],
  ["USDT", () => permit2Token(fixture.devnet, "usdt")],
];
test.each(sample(GASLESS))(
  "the estimated size of a 402 at load includes the extensions for payers without gas: %s",
  async (_what, tokenOf) => {
    const token = tokenOf();
    const gateway = await fixture.gateway({ token });
    const header = String((await gateway.post()).headers["payment-required"]);
    const x402 = x402Toml({ env: {} }).parse(x402Table({ devnet: fixture.devnet, token }));
    const prices = toPriceList([{ serviceId: 1, jobIndex: 7, priceWei: 10n ** 15n }]);
    expect(header).toHaveLength(requiredHeaderBytes(x402, prices, "Payment is required"));
  },
);

onlyInLongRun(() => {
  test("the estimated size of a 402 at load includes the description of its job, and a warning names the job", async () => {
    const prices = { "7": { ...DECLARED, input_schema: schemaOfBytes(1536), input_example: {}, ...PRINTED } };
    const gateway = await fixture.gateway({ prices });
    const header = String((await gateway.post()).headers["payment-required"]);
    const x402 = x402Toml({ env: {} }).parse(x402Table({ devnet: fixture.devnet }));
    const { jobs } = parseJobPricing({ "1": { "6": "1000000000000000", ...prices } });
    expect(header).toHaveLength(requiredHeaderBytes(x402, jobs, "Payment is required"));
    expect(headWarnings(x402, jobs)).toEqual([
      expect.stringMatching(
        /one offer, and the schemas of job 1\/7, make .* \d{4} bytes.*\. Set proxy_buffer_size of nginx to 16k/,
      ),
    ]);
  });
});
