import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, operatorUrl, usageError, wholeNumber } from "../options.ts";
import { listOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { CloseOptions } from "./close.ts";
import type { ListOptions } from "./list.ts";
import type { OpenOptions } from "./open.ts";
import type { SetStateOptions } from "./set-state.ts";

const MINUTES = 10;

/** Adds `postern endpoints ...` with its options. Each subcommand is implemented in the file of its name. */
export function addEndpoints(program: ProgramCommand, deps: ProgramDeps): void {
  const endpoints = program
    .command("endpoints")
    .description(
      "list, disable, hold or enable endpoints, or wait for the secret that a sender sends in its first request",
    )
    .helpGroup(GROUP.act);
  endpoints
    .command("list")
    .description("list the configured endpoints, with their requests of the last 24 hours")
    .helpGroup(GROUP.look)
    .addOption(listOutput())
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("endpoints list")
    .action(async (options: ListOptions) => {
      const { listEndpoints } = await import("./list.ts");
      deps.exitWith(await listEndpoints(deps, options));
    });
  endpoints
    .command("open")
    .description(
      "wait for the request in which the sender sends its secret (a handshake), and print the secret once; Ctrl-C stops waiting",
    )
    .helpGroup(GROUP.act)
    .argument("<path>", "path of the endpoint")
    .option(
      "--minutes <n>",
      "minutes to wait for the secret",
      wholeNumber({ example: MINUTES, min: 1, max: 120 }),
      MINUTES,
    )
    .addOption(configDir())
    .addHelpText("after", "\nIt always uses Redis, so that the console never has the secret.")
    .examples("endpoints open /hooks/asana")
    .action(async (path: string, options: OpenOptions) => {
      const { openEndpoint } = await import("./open.ts");
      deps.exitWith(await openEndpoint(deps, path, options));
    });
  endpoints
    .command("close")
    .description("stop waiting for a secret, and delete one that was not shown")
    .helpGroup(GROUP.act)
    .argument("<path>", "path of the endpoint")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("endpoints close /hooks/asana")
    .action(async (path: string, options: CloseOptions) => {
      const { closeEndpoint } = await import("./close.ts");
      deps.exitWith(await closeEndpoint(deps, path, options));
    });
  addStates(endpoints, deps);
}

/** Adds the commands `disable`, `hold` and `enable`, which change the state of an endpoint at all gateways. */
function addStates(endpoints: ProgramCommand, deps: ProgramDeps): void {
  for (const { name, state, says } of STATES)
    endpoints
      .command(name)
      .description(says)
      .helpGroup(GROUP.act)
      .argument("<path>", "path of the endpoint")
      .requiredOption("--reason <text>", "reason for the audit log and the list of endpoints")
      .addOption(operatorUrl())
      .addOption(configDir())
      .examples(`endpoints ${name} /hooks/github --reason "its job is broken"`)
      .action(async (path: string, options: SetStateOptions, command: ProgramCommand) => {
        if (options.reason?.trim() === "") usageError(command, "--reason must not be empty");
        const { setEndpointState } = await import("./set-state.ts");
        deps.exitWith(await setEndpointState(deps, { path, state }, options));
      });
  endpoints
    .command("enable")
    .description("accept webhooks and deliver their calls again, the held ones first")
    .helpGroup(GROUP.act)
    .argument("<path>", "path of the endpoint")
    .addOption(operatorUrl())
    .addOption(configDir())
    .examples("endpoints enable /hooks/github")
    .action(async (path: string, options: SetStateOptions) => {
      const { setEndpointState } = await import("./set-state.ts");
      deps.exitWith(await setEndpointState(deps, { path, state: "enabled" }, options));
    });
}

const STATES = [
  {
    name: "disable",
    state: "disabled",
    says: "refuse the webhooks of this endpoint with 503 at all gateways; senders try again later",
  },
  {
    name: "hold",
    state: "held",
    says: "accept the webhooks of this endpoint, but deliver no new calls until it is enabled; calls accepted before go on: pause the job to stop them too",
  },
] as const;
