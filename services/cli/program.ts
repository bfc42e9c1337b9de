import { Argument, type Command, CommanderError } from "commander";
import { idsOfKey } from "../../shared/call/job-ids.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import {
  environmentWarnings,
  failpointOf,
  logLevelOf,
  requireUtf8,
} from "../../shared/platform/lifecycle/environment.ts";
import { armFailpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import { DIFFICULTY_BEARABLE } from "../../shared/pricing/proof-of-work.ts";
import { KINDS, type ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { addCallbacks } from "./callbacks/command.ts";
import { addCalls } from "./calls/command.ts";
import { GROUP, HELP, ProgramCommand } from "./command.ts";
import { addCompletion } from "./completion/command.ts";
import { addConfig } from "./config/command.ts";
import { addEndpoints } from "./endpoints/command.ts";
import { addFailed } from "./failed/command.ts";
import { addInit } from "./init/command.ts";
import { addJobs } from "./jobs/command.ts";
import {
  bindAddress,
  bodyFile,
  configDir,
  operatorUrl,
  opsAddress,
  parseAddress,
  parseJobKey,
  parseUrl,
  port,
  serviceId,
  valueErrorText,
  wholeNumber,
} from "./options.ts";
import { createOutput } from "./output.ts";
import { addOutputOptions, isJsonWanted, jsonOutput } from "./output-options.ts";
import { addPay } from "./pay/command.ts";
import { addPayments } from "./payments/command.ts";
import type { ProgramDeps, Surroundings } from "./program-deps.ts";
import type { QuoteOptions } from "./quote.ts";
import { addRates } from "./rates/command.ts";
import { addRedis } from "./redis/command.ts";
import { addRefunds } from "./refunds/command.ts";
import { addRejected } from "./rejected/command.ts";
import { addResult } from "./result/command.ts";
import { addSend } from "./send/command.ts";
import type { StatusOptions } from "./status.ts";
import { addTail } from "./tail/command.ts";
import { jsonLine } from "./text.ts";

const EXIT_CODES = `
Exit codes:
  0  success
  1  failure or partial success
  2  wrong command line
  3  wrong configuration`;

/** The table of all commands. Each imports its own file only when it runs, so that `--help` and the others stay quick. */
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

/** In the order of the help, whose groups are by task. */
function addCommands(program: ProgramCommand, deps: ProgramDeps): void {
  addDev(program, deps);
  addInit(program, deps);
  addConfig(program, deps);
  addServices(program, deps);
  addRedisAcl(program, deps);
  addCompletion(program, deps);
  addStatus(program, deps);
  addTail(program, deps);
  addCalls(program, deps);
  addRejected(program, deps);
  addCallbacks(program, deps);
  addFailed(program, deps);
  addJobs(program, deps);
  addEndpoints(program, deps);
  addRedis(program, deps);
  addPayments(program, deps);
  addRefunds(program, deps);
  addRates(program, deps);
  addDevnet(program, deps);
  addSend(program, deps);
  addPay(program, deps);
  addResult(program, deps);
  addQuote(program, deps);
  // Last, because a command passes it on to those that are added later.
  program.commandsGroup(GROUP.run).helpCommand("help [command]", "display help for command");
}

/** The commands that run as processes of their own, and say in their log what others say on stderr. */
const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner", "operator", "dev", "devnet"];

/**
 * Ends a command with 3 if a variable is wrong, and arms the failpoint of a test. Services see to both
 * themselves, and at their start warn of variables that nothing reads, as a check of the configuration does.
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
    logLevelOf(env);
    requireUtf8(env);
    armFailpoint(failpointOf(env));
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

function addServices(program: ProgramCommand, { services, exitWith }: ProgramDeps): void {
  program
    .command("webhooks")
    .description("run a webhooks gateway: verify webhooks, queue them as calls, and answer 202")
    .helpGroup(GROUP.run)
    .examples("webhooks --config-dir /etc/postern --service-id 7")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in webhooks.toml"))
    .addOption(opsAddress("127.0.0.1:9091"))
    .addOption(serviceId())
    .action(async (options) => exitWith(await services.webhooks(options)));
  program
    .command("x402")
    .description("run a payment gateway (x402): settle payments, queue the paid calls, and answer 202")
    .helpGroup(GROUP.run)
    .examples("x402 --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in x402.toml"))
    .addOption(opsAddress("127.0.0.1:9093"))
    .option(
      "--drain",
      "sell nothing new, answer repeated requests of earlier payers, and report when another Redis may take over",
    )
    .action(async (options) => exitWith(await services.x402(options)));
  program
    .command("pricing")
    .description("run a pricing engine: sign quotes over gRPC and HTTP")
    .helpGroup(GROUP.run)
    .examples("pricing --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in pricing.toml"))
    .addOption(opsAddress("127.0.0.1:9094"))
    .action(async (options) => exitWith(await services.pricing(options)));
  program
    .command("producer")
    .description("run a producer: read calls from the queues, and send them to the runner")
    .helpGroup(GROUP.run)
    .examples("producer --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(opsAddress("127.0.0.1:9092"))
    .action(async (options) => exitWith(await services.producer(options)));
  program
    .command("runner")
    .description("run the reference runner with its example jobs")
    .helpGroup(GROUP.run)
    .examples("runner --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(bindAddress("[runner] bind_address in postern.toml"))
    .action(async (options) => exitWith(await services.runner(options)));
  program
    .command("operator")
    .description("run the console: the page and HTTP API for operators")
    .helpGroup(GROUP.run)
    .examples("operator --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in operator.toml, else 127.0.0.1:9300"))
    .addOption(opsAddress("127.0.0.1:9095"))
    .action(async (options) => exitWith(await services.operator(options)));
}

type DevOptions = {
  configDir?: string;
  serviceId?: string;
  runner?: URL;
  portBase?: number;
  verbose?: boolean;
};

/** Leaves room for all that dev starts. */
const PORT_BASE_MAX = 65_500;

function addDev(program: ProgramCommand, { services, exitWith }: ProgramDeps): void {
  program
    .command("dev")
    .description("run everything on this machine, with a private Redis")
    .helpGroup(GROUP.run)
    .examples("dev", "dev --runner http://127.0.0.1:7000 --port-base 9000")
    .option("--config-dir <dir>", "configuration directory (default: a new example configuration)")
    .option(
      "--service-id <n>",
      "number of the service, which is a group of jobs (default: POSTERN_SERVICE_ID, else 0)",
    )
    .option("--runner <url>", "URL of your own runner, which replaces the reference runner", parseUrl)
    .option(
      "--port-base <n>",
      "use fixed ports, starting at n",
      wholeNumber(9000, { min: 1, max: PORT_BASE_MAX }),
    )
    .option("--verbose", "print all logs of the processes (default on a terminal: only warnings and errors)")
    .action(async ({ configDir, serviceId, runner, portBase, verbose = false }: DevOptions) =>
      exitWith(await services.dev({ configDir, serviceId, runner, portBase, verbose })),
    );
}

function addDevnet(program: ProgramCommand, { services, exitWith }: ProgramDeps): void {
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
      wholeNumber(1000),
      1000,
    )
    .action(async (options) => exitWith(await services.devnet(options)));
}

function addQuote(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("quote")
    .description("compute a proof of work, and request a signed quote from a pricing engine")
    .helpGroup(GROUP.try)
    .argument("<url>", "HTTP URL of the pricing engine", parseUrl)
    .requiredOption("--job <service/job>", "job of the quote, such as 7/1", parseJobKey)
    .requiredOption("--requester <address>", "address that will pay with the quote", parseAddress)
    .option("--body <text>", "body of the paid request")
    .addOption(bodyFile("file with the body of the paid request"))
    .option(
      "--difficulty <bits>",
      "difficulty of the proof of work, as configured at the engine",
      wholeNumber(20, { max: DIFFICULTY_BEARABLE }),
      20,
    )
    .examples("quote http://127.0.0.1:8404 --job 0/1 --requester $ADDRESS")
    .action(async (url: URL, options: QuoteOptions & { job: string }) => {
      const { showQuote } = await import("./quote.ts");
      deps.exitWith(await showQuote(deps, url, idsOfKey(options.job), options));
    });
}

const STATUS_COLUMNS = `
Columns:
  DELAYED       calls that wait until the time of their next attempt
  HELD          calls that wait until their endpoint is enabled
  IN FLIGHT     calls that a producer has sent to the runner
  OLDEST        age of the oldest waiting or delayed call
  ACCEPTED/MIN  calls accepted, average of 5 minutes
  INJECTED/MIN  calls that the runner answered with 2xx, average of 5 minutes
  FAILED/MIN    calls that failed, average of 5 minutes
  CONFIG        digest of the configuration of the process
The averages lag by up to a minute, the last hour by up to 10 seconds.`;

function addStatus(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("status")
    .description(
      "show the queues by origin, the counts of the last hour, the running processes and the durability of Redis",
    )
    .helpGroup(GROUP.look)
    .option("--watch", "refresh every two seconds until Ctrl-C")
    .addOption(jsonOutput("print JSON, one object a line"))
    .addOption(operatorUrl())
    .addOption(configDir())
    .addHelpText("after", STATUS_COLUMNS)
    .examples("status", "status --watch")
    .action(async (options: StatusOptions) => {
      const { showStatus } = await import("./status.ts");
      deps.exitWith(await showStatus(deps, options));
    });
}

function addRedisAcl(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("redis-acl")
    .description("print the Redis ACL rules of a process, as a command for redis-cli")
    .helpGroup(GROUP.run)
    .examples("redis-acl producer", "redis-acl webhooks --name shop")
    .addArgument(
      new Argument(
        "<process>",
        "process that uses the rules; operator means the console and the commands",
      ).choices(KINDS),
    )
    .option("--name <name>", "name of the deployment, as [redis] name", "postern")
    .action(async (user: ProcessKind, { name, json }: { name: string; json?: boolean }) => {
      const { aclRules } = await import("../../shared/redis/acl-rights.ts");
      const rules = aclRules(user, name);
      deps.print(json ? jsonLine({ user, rules }) : `ACL SETUSER ${user} on >PASSWORD ${rules}\n`);
    });
}
