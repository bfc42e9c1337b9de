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
import { needs } from "../../support/needs.ts";
import { startProxy } from "../../support/nginx.ts";
import { toPriceList } from "../../support/price-list.ts";
import { tellProgressOn } from "../../support/results.ts";
import { DECLARED, schemaOfBytes } from "./job-inputs.ts";
import { manyTokens } from "./many-tokens.ts";

const fixture = useX402();
const ends = useEnds();
const calls = useBoughtCalls(fixture);

/** What a 402 of so many tokens is through an nginx, on a machine whose pages have 4 kB. */
async function through(lines: string, tokens: number, query = "") {
  const settings = { ...manyTokens(fixture.devnet, tokens - 1), public_url: "https://jobs.example.com" };
  const x402 = await fixture.gateway({ x402: settings, early: true });
  const nginx = await startProxy(x402.address, lines);
  ends.defer(nginx.stop);
  return send(nginx.address, { path: `${JOB_PATH}${query}`, body: "" });
}

const STOCK = "proxy_buffer_size 4k;";

test(
  "six tokens are more than a stock nginx takes in a 402, and five are not, nor six with more room or one network",
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
  "a stream of events comes through a stock nginx as it is written, and so does the id of a client that comes again",
  needs("nginx"),
  async () => {
    const x402 = await fixture.gateway();
    const { id, token } = await calls.buy(x402);
    const nginx = await startProxy(x402.address, "");
    ends.defer(nginx.stop);
    const url = `http://${nginx.address}/x402/calls/${id}/events`;
    const stream = await readStream(url, { token });
    await eventually("its state, while the answer is open", () => stream.events.length === 2);
    const lastEventId = stream.events.at(-1)?.id ?? "";
    stream.close();
    const again = await readStream(url, { token, lastEventId });
    await tellProgressOn(fixture.redis.partition)(id, { at: 5, json: '{"step":1}' });
    await eventually("what it does not know", () => again.events.length === 2);
    expect(again.events.at(-1)).toMatchObject({ event: "progress", data: { progress: { step: 1 } } });
    again.close();
  },
);

test.each([1, 3, 8])("the size that is known of a 402 with %i tokens at load is its size", async (tokens) => {
  const settings = manyTokens(fixture.devnet, tokens - 1);
  const gateway = await fixture.gateway({ x402: settings, early: true });
  const header = String((await gateway.post()).headers["payment-required"]);
  const table = x402Table({ devnet: fixture.devnet, x402: settings });
  const prices = toPriceList([{ serviceId: 1, jobIndex: 7, priceWei: 10n ** 15n }]);
  expect(header).toHaveLength(
    requiredHeaderBytes(x402Toml({ env: {} }).parse(table), prices, "Payment is required"),
  );
});

test("the size that is known at load of a 402 counts what the job says of itself, and a warning names the job", async () => {
  const prices = { "7": { ...DECLARED, input_schema: schemaOfBytes(1536), input_example: {} } };
  const gateway = await fixture.gateway({ prices });
  const header = String((await gateway.post()).headers["payment-required"]);
  const x402 = x402Toml({ env: {} }).parse(x402Table({ devnet: fixture.devnet }));
  const { jobs } = parseJobPricing({ "1": { "6": "1000000000000000", ...prices } });
  expect(header).toHaveLength(requiredHeaderBytes(x402, jobs, "Payment is required"));
  expect(headWarnings(x402, jobs)).toEqual([
    expect.stringMatching(
      /one offer, and the input schema of job 1\/7, make .* \d{4} bytes.*\. Set proxy_buffer_size of nginx to 16k/,
    ),
  ]);
});
