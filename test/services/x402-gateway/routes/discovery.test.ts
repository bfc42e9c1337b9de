import {
  checkL2ForOpenAPI,
  getL3ForOpenAPI,
  getOpenAPI,
  getWarningsForL2,
  getWarningsForL3,
  getWarningsForOpenAPI,
  type OpenApiSource,
  validatePaymentRequiredDetailed,
} from "@agentcash/discovery";
import SwaggerParser from "@apidevtools/swagger-parser";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { readDocument } from "../../../docs/blocks.ts";
import { PUBLIC_URL, QUOTE_SECRET, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import type { OpenApi } from "../../../support/openapi.ts";
import { DECLARED, PRINTED } from "../job-inputs.ts";
import { rateless } from "../rateless.ts";
import { restrictedJobs } from "../restricted-jobs.ts";

const fixture = useX402();

const PATHS = ["/openapi.json", "/.well-known/x402", "/llms.txt"];

const read = ({ address }: TestX402, path: string, headers: Record<string, string> = {}) =>
  send(address, { method: "GET", path, headers });

type Paid = { "x-payment-info": { price: object; offers: object[] } };
const documentOf = async (x402: TestX402) =>
  (await read(x402, "/openapi.json")).json<OpenApi & Record<string, unknown>>();
const purchase = (document: OpenApi, path: string) => document.paths[path]?.["post"] as unknown as Paid;

/** Returns AgentCash's warnings about the document, which it fetches itself. */
async function warningsOf(x402: TestX402) {
  const source = (await getOpenAPI(`http://${x402.address}`))._unsafeUnwrap() as OpenApiSource;
  const l2 = checkL2ForOpenAPI(source);
  const l3 = l2.routes.flatMap(({ path, method }) => getWarningsForL3(getL3ForOpenAPI(source, path, method)));
  const warnings = [...getWarningsForOpenAPI(source), ...getWarningsForL2(l2), ...l3];
  return { routes: l2.routes, warnings: warnings.map(({ code, message }) => `${code}: ${message}`) };
}

/** The schemas of draft-payment-discovery-01, appendices C and D. */
const OFFER = {
  type: "object",
  required: ["intent", "method", "amount"],
  properties: {
    intent: { enum: ["charge", "session"] },
    method: { type: "string" },
    amount: { oneOf: [{ type: "null" }, { type: "string", pattern: "^(0|[1-9][0-9]*)$" }] },
    currency: { type: "string" },
    description: { type: "string" },
  },
  additionalProperties: false,
};
const isOffers = new Ajv2020().compile({ type: "array", minItems: 1, items: OFFER });

/** A shop with jobs of each kind. */
const shop = () => {
  const { prices, x402 } = restrictedJobs(fixture.devnet);
  const disabled = { service_id: 1, job_index: 11, invocation_mode: "disabled" };
  return {
    prices: {
      ...prices,
      "7": { ...DECLARED, callback_url: "https://hooks.internal.test/" },
      "11": DECLARED.price_wei,
    },
    x402: { ...x402, job_policies: [...x402.job_policies, disabled] },
  };
};

describe("200", () => {
  test("AgentCash finds each job with its price, and has no warnings", async () => {
    const { routes, warnings } = await warningsOf(await fixture.gateway(shop()));
    expect(warnings).toEqual([]);
    const paid = routes.filter(({ authMode }) => authMode === "paid");
    expect(paid.map(({ method, path, price, protocols }) => [method, path, price, protocols])).toEqual(
      ["7", "8", "9", "10"].map((job) => ["POST", `/x402/jobs/1/${job}`, "3.2 USD", ["x402"]]),
    );
  });

  onlyInLongRun(() => {
    test("the document is valid OpenAPI 3.1, also with two tokens whose rates change and with more jobs than it shows", async () => {
      const indices = Array.from({ length: 120 }, (_, i) => String(i));
      const x402 = await fixture.gateway({
        prices: Object.fromEntries(indices.map((index) => [index, DECLARED.price_wei])),
        token: rateless,
      });
      const document = await documentOf(x402);
      await SwaggerParser.validate(structuredClone(document) as never);
      const bought = Object.entries(document.paths).filter(
        ([, { post }]) => post && "x-payment-info" in post,
      );
      expect(bought.length).toBe(101);
      expect(bought.at(-1)?.[0]).toBe("/x402/jobs/{service_id}/{job_index}");
      const [{ resources }] = [(await read(x402, "/.well-known/x402")).json<{ resources: string[] }>()];
      expect(resources.length).toBe(100);
    });
  });

  test("both dialects have the amount of a fixed rate, and only the bounds of one that changes", async () => {
    const fixed = purchase(await documentOf(await fixture.gateway()), "/x402/jobs/1/7");
    expect(fixed["x-payment-info"]).toEqual({
      price: { mode: "fixed", currency: "USD", amount: "3.2" },
      protocols: [{ x402: {} }],
      offers: [
        {
          ...{ intent: "charge", method: "x402", amount: "3200000", currency: fixture.devnet.token },
          description: `3.2 USDC on ${fixture.devnet.network}`,
        },
      ],
    });
    const infoOf = async (
      token: Parameters<typeof fixture.gateway>[0] extends { token?: infer T } ? T : never,
    ) =>
      purchase(
        await documentOf(await fixture.gateway({ token: token as never, early: true })),
        "/x402/jobs/1/7",
      )["x-payment-info"];
    const bounded = await infoOf({ ...rateless, min_rate: "1000", max_rate: "5000" } as never);
    expect(bounded).toMatchObject({
      price: { mode: "dynamic", currency: "USD", min: "1", max: "5" },
      offers: [{ amount: null, description: expect.stringContaining("from 1 to 5") }],
    });
    const unbounded = await infoOf(rateless as never);
    expect(unbounded).toMatchObject({
      price: { mode: "dynamic", currency: "USD" },
      offers: [{ amount: null }],
    });
    for (const { offers } of [fixed["x-payment-info"], bounded, unbounded])
      expect(isOffers(offers)).toBe(true);
  });

  test("the price in a token without a fixed currency cannot be mistaken for dollars", async () => {
    const document = await documentOf(await fixture.gateway({ token: { symbol: "WETH" } }));
    expect(purchase(document, "/x402/jobs/1/7")["x-payment-info"]).toMatchObject({
      price: { mode: "dynamic" },
      offers: [{ amount: "3200000", description: expect.stringContaining("3.2 WETH") }],
    });
  });

  test("the document contains the schema of a job, and the references in the schema point into the document", async () => {
    const input_schema = {
      type: "object",
      properties: { items: { type: "array", items: { $ref: "#/$defs/item" } } },
      $defs: { item: { type: "integer" } },
    };
    const anchored = { ...input_schema, $anchor: "here" };
    const x402 = await fixture.gateway({
      prices: {
        "7": { ...DECLARED, input_schema },
        "8": { ...DECLARED, name: "anchored", input_schema: anchored },
      },
    });
    const document = await documentOf(x402);
    const ajv = new Ajv2020({ strict: false, logger: false, validateFormats: false });
    ajv.addSchema({ $id: "https://document.test/", ...document } as object);
    const check = ajv.compile({ $ref: "https://document.test/#/components/schemas/Job_1_7" });
    expect([check({ items: [1] }), check({ items: ["1"] })]).toEqual([true, false]);
    expect(Object.keys(document.components.schemas)).not.toContain("Job_1_8");
  });

  onlyInLongRun(() => {
    test("the answer of a finished call has the schema of the job's output, which AgentCash reads", async () => {
      const shop = { name: "Printers", tags: ["printing", "orders"] };
      const x402 = await fixture.gateway({ x402: { shop }, prices: { "7": { ...DECLARED, ...PRINTED } } });
      const source = (await getOpenAPI(`http://${x402.address}`))._unsafeUnwrap() as OpenApiSource;
      expect(getL3ForOpenAPI(source, "/x402/jobs/1/7", "POST")).toMatchObject({
        outputSchema: PRINTED.output_schema,
      });
      const document = await documentOf(x402);
      expect(document["x-service-info"]).toMatchObject({ categories: shop.tags });
      const required = (await x402.ask()).v2;
      expect(validatePaymentRequiredDetailed(required).issues).toEqual([]);
    });
  });

  test("the documents have no secret, no internal address, and no job that is not for sale", async () => {
    const { rpcUrl, facilitatorUrl, callerRegistry } = fixture.devnet;
    const x402 = await fixture.gateway(shop());
    const texts = await Promise.all(PATHS.map(async (path) => (await read(x402, path)).text));
    for (const text of texts) {
      for (const hidden of [QUOTE_SECRET, rpcUrl, facilitatorUrl, callerRegistry, "hooks.internal"])
        expect(text.includes(hidden), hidden).toBe(false);
      expect(text).not.toMatch(/jobs\/1\/11\b/);
    }
    expect(texts[0]).toContain("Only for callers that a contract permits.");
  });

  test("the well-known document has the URL of each job, and llms.txt has its description and price", async () => {
    const x402 = await fixture.gateway(shop());
    const jobs = ["7", "8", "9", "10"].map((job) => `${PUBLIC_URL}/x402/jobs/1/${job}`);
    expect((await read(x402, "/.well-known/x402")).json()).toEqual({
      ...{ version: 2, x402Version: 2, name: "pay.test", resources: jobs },
      ...{ openapi: `${PUBLIC_URL}/openapi.json`, llms: `${PUBLIC_URL}/llms.txt` },
    });
    const llms = await read(x402, "/llms.txt");
    expect(llms.headers["content-type"]).toBe("text/markdown; charset=utf-8");
    expect(llms.text).toMatch(/^# pay\.test\n\n> /);
    expect(llms.text).toContain(
      `- [order](${jobs[0]}): Takes an order. Price: 3.2 USDC on ${fixture.devnet.network}\n`,
    );
  });

  test.each(sample(PATHS))(
    "%s may be kept for some minutes, answers HEAD, and any page of a browser may read it",
    async (path) => {
      const x402 = await fixture.gateway();
      const { headers, body } = await read(x402, path);
      expect(headers).toMatchObject({
        "cache-control": "public, max-age=300",
        etag: expect.stringMatching(/^"[0-9a-f]{32}"$/),
        "access-control-allow-origin": "*",
      });
      const head = await send(x402.address, { method: "HEAD", path });
      expect([head.status, head.text, head.headers["content-length"]]).toEqual([
        200,
        "",
        String(body.length),
      ]);
      expect((await send(x402.address, { method: "OPTIONS", path })).status).toBe(204);
    },
  );

  test("the document has each status that docs/payments.md lists", async () => {
    const document = await documentOf(await fixture.gateway());
    const rows = [
      ...readDocument("docs/payments.md").matchAll(/^\| `(GET|POST) (\/[^`]*)`.*: (\d{3}.*) \|$/gm),
    ];
    expect(rows.length).toBeGreaterThan(8);
    for (const [, method = "", path = "", statuses = ""] of rows) {
      const at = path.replace(/\{job_index\}$/, "7").replace("{service_id}/7", "1/7");
      const { responses = {} } = document.paths[at]?.[method.toLowerCase()] ?? {};
      const missing = [...statuses.matchAll(/\d{3}/g)]
        .map(([status]) => status)
        .filter((status) => status !== "405" && !responses[status] && !responses[`${status[0]}XX`]);
      expect([path, missing]).toEqual([path, []]);
    }
  });
});

describe("304", () => {
  test.each(sample(PATHS))("%s is not sent again to a client that has it", async (path) => {
    const x402 = await fixture.gateway();
    const { etag = "" } = (await read(x402, path)).headers;
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const again = await read(x402, path, { "If-None-Match": known });
      expect([again.status, again.text, again.headers.etag]).toEqual([304, "", etag]);
    }
    expect((await read(x402, path, { "If-None-Match": '"other"' })).status).toBe(200);
  });
});

describe("405", () => {
  test.each(sample(PATHS))("%s can only be read", async (path) => {
    const { address } = await fixture.gateway();
    const answer = await send(address, { path });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });
});
