import { type Command, CommanderError } from "commander";
import type { Env } from "../../shared/config/secrets.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import {
  environmentWarnings,
  failpointOf,
  loggingOf,
  requireUtf8,
} from "../../shared/platform/lifecycle/environment.ts";
import { armFailpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import { addCallbacks } from "./callbacks/command.ts";
import { addCalls } from "./calls/command.ts";
import { GROUP, HELP, ProgramCommand } from "./command.ts";
import { addCompletion } from "./completion/command.ts";
import { addConfig } from "./config/command.ts";
import { addDev } from "./dev/command.ts";
import { addDevnet } from "./devnet/command.ts";
import { addEndpoints } from "./endpoints/command.ts";
import { addFailed } from "./failed/command.ts";
import { addInit } from "./init/command.ts";
import { addJobs } from "./jobs/command.ts";
import { addOpenApi } from "./openapi/command.ts";
import { valueErrorText } from "./options.ts";
import { createOutput } from "./output.ts";
import { addOutputOptions, isJsonWanted } from "./output-options.ts";
import { addPay } from "./pay/command.ts";
import { addPayments } from "./payments/command.ts";
import type { ProgramDeps, Surroundings } from "./program-deps.ts";
import { addQuote } from "./quote/command.ts";
import { addRates } from "./rates/command.ts";
import { addReceipt } from "./receipt/command.ts";
import { addRedis } from "./redis/command.ts";
import { addRedisAcl } from "./redis-acl/command.ts";
import { addRefunds } from "./refunds/command.ts";
import { addRejected } from "./rejected/command.ts";
import { addReload } from "./reload/command.ts";
import { addResult } from "./result/command.ts";
import { addSend } from "./send/command.ts";
import { addServices } from "./services/command.ts";
import { addStatus } from "./status/command.ts";
import { addTail } from "./tail/command.ts";

const EXIT_CODES = `
Exit codes:
  0  success
  1  failure or partial success
  2  wrong command line
  3  wrong configuration`;

/**
 * Builds the program with all its commands. A command imports its implementation only when it runs, so that `--help`
 * and all other commands start quickly.
 */
export function buildProgram(given: Surroundings): ProgramCommand {
  const output = createOutput(given);
  const deps: ProgramDeps = { ...given, ...output };
  const program = new ProgramCommand("postern")
    .description("Turn webhooks and paid HTTP requests into durable calls of a job runner.")
    .version(deps.version, "-V, --version", "print the version")
    .addHelpText("before", "Start with: postern dev\n")
    .addHelpText("after", EXIT_CODES)
    .configureOutput({
      writeOut: deps.print,
      writeErr: (text) => (isJsonWanted(program) ? deps : given).printError(text),
      outputError(text) {
        if (isJsonWanted(program)) output.begin({ output: "json" });
        deps.printError(valueErrorText(text));
      },
    })
    .configureHelp(HELP)
    .showHelpAfterError("(see --help)")
    .exitOverride((error: CommanderError): never => {
      deps.exitWith(error.exitCode === 0 ? EXIT.ok : EXIT.usage);
      throw error;
    });
  program.hook("preAction", (_program, command) => {
    command.setOptionValue("json", command.opts()["output"] === "json");
    output.begin(command.opts());
    checkEnvironment(command, deps);
  });
  addCommands(program, deps);
  addOutputOptions(program);
  return program;
}

/** Adds the commands in the order of the help, which groups them by task. */
function addCommands(program: ProgramCommand, deps: ProgramDeps): void {
  addDev(program, deps);
  addInit(program, deps);
  addConfig(program, deps);
  addServices(program, deps);
  addRedisAcl(program, deps);
  addOpenApi(program, deps);
  addCompletion(program, deps);
  addStatus(program, deps);
  addTail(program, deps);
  addCalls(program, deps);
  addRejected(program, deps);
  addCallbacks(program, deps);
  addFailed(program, deps);
  addJobs(program, deps);
  addEndpoints(program, deps);
  addReload(program, deps);
  addRedis(program, deps);
  addPayments(program, deps);
  addRefunds(program, deps);
  addRates(program, deps);
  addDevnet(program, deps);
  addSend(program, deps);
  addPay(program, deps);
  addResult(program, deps);
  addQuote(program, deps);
  addReceipt(program, deps);
  // This comes last, because commander applies the group to all commands that are added later.
  program.commandsGroup(GROUP.run).helpCommand("help [command]", "display help for command");
}

/**
 * Commands that run a service. `checkEnvironment` skips them, because a service checks the environment itself and logs
 * the problems.
 */
const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner", "operator", "dev", "devnet"];

/**
 * Ends a command with exit code 3 if an environment variable is invalid. Also reads POSTERN_FAILPOINT, with which a
 * test makes the process end at a certain point. Services do both themselves. `config check` also warns of unused
 * variables, as services do at their start.
 */
function checkEnvironment(command: Command, { env, note, printError, exitWith }: ProgramDeps): void {
  if (SERVICES.includes(command.name()) && command.parent?.parent === null) return;
  const { configDir } = command.opts<{ configDir?: string }>();
  const isCheck = command.parent?.name() === "config";
  for (const warning of isCheck ? environmentWarnings(env, configDir) : []) note(`warning: ${warning}\n`);
  const problem = environmentProblem(env);
  if (problem === undefined) return;
  printError(`${problem}\n`);
  exitWith(EXIT.config);
  throw new CommanderError(EXIT.config, "postern.environment", problem);
}

function environmentProblem(env: Env): string | undefined {
  try {
    loggingOf(env);
    requireUtf8(env);
    armFailpoint(failpointOf(env));
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
