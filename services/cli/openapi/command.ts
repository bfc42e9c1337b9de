import { Argument } from "commander";
import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { DOCUMENTED, type OpenApiOptions } from "./openapi.ts";

export function addOpenApi(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("openapi")
    .description("print the OpenAPI document of a service, by its configuration")
    .helpGroup(GROUP.run)
    .addArgument(new Argument("<service>", "service that the document describes").choices(DOCUMENTED))
    .addOption(configDir())
    .examples("openapi x402", "openapi webhooks > openapi.json")
    .action(async (service: (typeof DOCUMENTED)[number], options: OpenApiOptions) => {
      const { printOpenApi } = await import("./print.ts");
      deps.exitWith(await printOpenApi(deps, service, options));
    });
}
