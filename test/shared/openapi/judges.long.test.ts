import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import SwaggerParser from "@apidevtools/swagger-parser";
import { expect, test } from "vitest";
import { parseJobPricing } from "../../../shared/config/job-pricing-toml.ts";
import { webhooksToml } from "../../../shared/config/webhooks-toml.ts";
import { x402Toml } from "../../../shared/config/x402-toml.ts";
import { toPricingOpenApi } from "../../../shared/openapi/pricing.ts";
import { toRunnerOpenApi } from "../../../shared/openapi/runner.ts";
import { toWebhooksOpenApi } from "../../../shared/openapi/webhooks.ts";
import { toX402OpenApi } from "../../../shared/openapi/x402.ts";
import { openApi } from "../../support/openapi.ts";
import { tempDir } from "../../support/temp-dir.ts";

/*
 * Independent validators check every document.
 */

const address = (digit: string) => `0x${digit.repeat(40)}`;

function x402OpenApi() {
  const token = { network: "eip155:8453", asset: address("1"), symbol: "USDC", decimals: 6 };
  const signing = { eip3009_name: "USDC", eip3009_version: "2", rpc_url: "https://rpc.example.com" };
  const x402 = x402Toml({ env: {} }).parse({
    public_url: "https://pay.test",
    facilitator_url: "https://facilitator.example.com",
    quote_secret: "a quote secret for these tests",
    accepted_tokens: [{ ...token, ...signing, pay_to: address("2"), rate_per_native_unit: "3200" }],
  });
  const input_schema = { type: "object", properties: { a: { $ref: "#/$defs/b" } }, $defs: { b: {} } };
  const output = { output_schema: { type: "string" }, output_example: "printed" };
  const order = {
    price_wei: "1000000000000000",
    name: "order",
    input_schema,
    input_example: { a: 1 },
    ...output,
  };
  const { jobs } = parseJobPricing({ "1": { "7": "1000000000000000", "8": order } });
  return toX402OpenApi({ x402, jobs: [...jobs.values()], metadataPrefix: "X-PLATFORM", version: "1.0.0" });
}

function webhooksOpenApi() {
  const hook = (path: string, more: object) => ({
    path,
    job_id: 1,
    secret: "a secret of these tests",
    ...more,
  });
  const endpoints = [
    hook("/hooks/github", { preset: "github" }),
    hook("/hooks/slack", { preset: "slack", respond: "result" }),
  ];
  return toWebhooksOpenApi({ webhooks: webhooksToml({ env: {} }).parse({ endpoints }), version: "1.0.0" });
}

const DOCUMENTS: Readonly<Record<string, () => object>> = {
  x402: x402OpenApi,
  webhooks: webhooksOpenApi,
  pricing: () => toPricingOpenApi({ version: "1.0.0" }),
  runner: () => toRunnerOpenApi({ version: "1.0.0" }),
  console: () => openApi,
};

type Linted = { problems: { ruleId: string; message: string; location: { pointer?: string }[] }[] };

async function lint(document: object): Promise<string[]> {
  const dir = tempDir();
  const [config, file] = [join(dir, "redocly.yaml"), join(dir, "openapi.json")];
  writeFileSync(config, JSON.stringify({ extends: ["recommended"] }));
  writeFileSync(file, JSON.stringify(document));
  const args = ["lint", file, "--config", config, "--format=json"];
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const run = promisify(execFile)("node_modules/.bin/redocly", args, { env });
  const { stdout } = await run.catch((failed: { stdout: string }) => failed);
  const { problems } = JSON.parse(stdout.slice(stdout.indexOf("{"))) as Linted;
  return problems.map(({ ruleId, message, location }) => `${ruleId} ${location[0]?.pointer}: ${message}`);
}

test.each(Object.keys(DOCUMENTS))(
  "Redocly and swagger-parser find no error in the document of %s",
  async (name) => {
    const document = DOCUMENTS[name]?.() ?? {};
    await SwaggerParser.validate(structuredClone(document) as never);
    expect(await lint(document)).toEqual([]);
  },
);
