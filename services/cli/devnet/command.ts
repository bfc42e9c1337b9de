import { GROUP, type ProgramCommand } from "../command.ts";
import { port, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";

export function addDevnet(program: ProgramCommand, { services, exitWith }: ProgramDeps): void {
  program
    .command("devnet")
    .description("run a test chain with a token, payers and a facilitator on this machine")
    .helpGroup(GROUP.try)
    .examples("devnet")
    .addOption(port("rpc", 8545, "port of the chain's JSON-RPC"))
    .addOption(port("facilitator", 8546, "port of the facilitator"))
    .addOption(
      port(
        "control",
        8547,
        "port of the control server, which describes the devnet and makes the facilitator fail on request",
      ),
    )
    .option(
      "--block-time-ms <n>",
      "milliseconds between blocks; 0 makes blocks only for transactions",
      wholeNumber({ example: 1000 }),
      1000,
    )
    .action(async (options) => exitWith(await services.devnet(options)));
}
