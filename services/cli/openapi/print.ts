import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { AppError, toAppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import type { Documented, OpenApiOptions } from "./openapi.ts";

/** `postern openapi`: prints the OpenAPI document for this configuration. */
export async function printOpenApi(
  deps: ProgramDeps,
  service: Documented,
  { configDir, json }: OpenApiOptions,
): Promise<number> {
  const { env, version } = deps;
  try {
    const document = await DOCUMENTS[service]({ dir: configDir, env, version });
    deps.print(json ? jsonLine(document) : `${JSON.stringify(document, null, 2)}\n`);
    return EXIT.ok;
  } catch (thrown) {
    deps.printError(`${toAppError(thrown).message}\n`);
    return EXIT.config;
  }
}

type Asked = Pick<ProgramDeps, "env" | "version"> & { dir: string };

const DOCUMENTS: Record<Documented, (asked: Asked) => Promise<object>> = {
  async x402({ version, ...place }) {
    const { readX402 } = await import("../../../shared/pricing/read-x402.ts");
    const { jobsOnSale } = await import("../../../shared/pricing/prices.ts");
    const { toX402OpenApi } = await import("../../../shared/openapi/x402.ts");
    const { x402, prices, postern } = loadConfig(readX402, { ...place, reader: "command" });
    if (x402 === undefined) throw missing(place.dir, "x402.toml");
    const { metadata_prefix: metadataPrefix } = postern;
    return toX402OpenApi({ x402, jobs: jobsOnSale(x402, prices), metadataPrefix, version });
  },
  async webhooks({ version, ...place }) {
    const { toWebhooksOpenApi } = await import("../../../shared/openapi/webhooks.ts");
    const { webhooks } = loadConfig(readWebhooks, { ...place, reader: "command" });
    if (webhooks === undefined) throw missing(place.dir, "webhooks.toml");
    return toWebhooksOpenApi({ webhooks, version });
  },
  async pricing({ version }) {
    const { toPricingOpenApi } = await import("../../../shared/openapi/pricing.ts");
    return toPricingOpenApi({ version });
  },
  async runner({ version }) {
    const { toRunnerOpenApi } = await import("../../../shared/openapi/runner.ts");
    return toRunnerOpenApi({ version });
  },
  async console({ version }) {
    const { toOpenApi } = await import("../../../shared/console/openapi.ts");
    return toOpenApi({ version, cookie: "postern" });
  },
};

function missing(dir: string, file: string): AppError {
  return new AppError("start.config_invalid", { reason: `${dir}/${file}: file not found` });
}
