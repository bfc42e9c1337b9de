import { Argument, Command, CommanderError, Help } from "commander";
import type { Env } from "../../shared/config/secrets.ts";
import { messageOf } from "../../shared/errors/app-error.ts";
import { JOB_INDEX_MAX } from "../../shared/job-call/job-ids.ts";
import {
  environmentWarnings,
  failpointOf,
  logLevelOf,
  requireUtf8,
} from "../../shared/lifecycle/environment.ts";
import { armFailpoint } from "../../shared/lifecycle/failpoint.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import { DIFFICULTY_BEARABLE } from "../../shared/pricing/proof-of-work.ts";
import { KINDS, type ProcessKind } from "../../shared/processes/process.ts";
import { addCallbacks } from "./callbacks/command.ts";
import { addCalls } from "./calls/command.ts";
import type { CheckOptions } from "./check-config.ts";
import { addEndpoint } from "./endpoint/command.ts";
import { addFailed } from "./failed/command.ts";
import { addInit } from "./init/command.ts";
import { addJobs } from "./jobs/command.ts";
import {
  bindAddress,
  configDir,
  opsAddress,
  parseAddress,
  parseUrl,
  port,
  requireOneBody,
  serviceId,
  wholeNumber,
} from "./options.ts";
import { createOutput } from "./output.ts";
import { addOutputOptions, isJsonWanted } from "./output-options.ts";
import { addPay } from "./pay/command.ts";
import { addPayments } from "./payments/command.ts";
import type { ProgramDeps, Surroundings } from "./program-deps.ts";
import type { QuoteOptions } from "./quote.ts";
import type { RatesOptions } from "./rates.ts";
import { addRejected } from "./rejected/command.ts";
import { addResult } from "./result/command.ts";
import { addSend } from "./send/command.ts";
import type { StatusOptions } from "./status.ts";
import { addTail } from "./tail/command.ts";
import { jsonLine } from "./text.ts";

const EXIT_CODES = `
Exit codes:
  0  done
  1  failed, or only partly done
  2  the command line is wrong
  3  the configuration is wrong`;

/** The table of all commands. Each imports its own file only when it runs, so that `--help` and the others stay quick. */
export function buildProgram(given: Surroundings): Command {
  const output = createOutput(given);
  const deps: ProgramDeps = { ...given, ...output };
  const program = new Command("postern")
    .description("The off-chain side gate of a job runner: HTTP requests become durable job calls.")
    .version(deps.version, "-V, --version", "print the version")
    .addHelpText("after", EXIT_CODES)
    .configureOutput({
      writeOut: deps.print,
      writeErr: (text) => (isJsonWanted(program) ? deps : given).printError(text),
      outputError(text) {
        if (isJsonWanted(program)) output.begin({ json: true });
        deps.printError(text);
      },
    })
    .configureHelp({ sortSubcommands: false, showGlobalOptions: false, subcommandTerm })
    .showHelpAfterError("(see --help)")
    .exitOverride((error: CommanderError): never => {
      deps.exitWith(error.exitCode === 0 ? EXIT.ok : EXIT.usage);
      throw error;
    });
  program.hook("preAction", (_program, command) => {
    output.begin(command.opts());
    checkEnvironment(command, deps);
  });
  addInit(program, deps);
  addServices(program, deps);
  addDev(program, deps);
  addDevnet(program, deps);
  addCalls(program, deps);
  addCallbacks(program, deps);
  addFailed(program, deps);
  addJobs(program, deps);
  addRejected(program, deps);
  addEndpoint(program, deps);
  addSend(program, deps);
  addPayments(program, deps);
  addPay(program, deps);
  addResult(program, deps);
  addQuote(program, deps);
  addRates(program, deps);
  addStatus(program, deps);
  addTail(program, deps);
  addRedisAcl(program, deps);
  addCheckConfig(program, deps);
  addOutputOptions(program);
  return program;
}

/** The commands that run as processes of their own, and say in their log what others say on stderr. */
const SERVICES = ["webhooks", "x402", "pricing", "producer", "runner", "operator", "dev", "devnet"];

/** Ends a command with 3 if a variable is wrong, and arms the failpoint of a test. Services see to both themselves. */
function checkEnvironment(command: Command, { env, note, printError, exitWith }: ProgramDeps): void {
  if (SERVICES.includes(command.name()) && command.parent?.parent === null) return;
  const { configDir } = command.opts<{ configDir?: string }>();
  for (const warning of environmentWarnings(env, configDir)) note(`warning: ${warning}\n`);
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

/** A command's name and arguments in the list of commands. Only the first of many arguments is shown, to leave room. */
function subcommandTerm(command: Command): string {
  const term = new Help().subcommandTerm(command);
  return term.length <= 30 ? term : term.replace(/>.*$/, "> ...");
}

function addServices(program: Command, { services, exitWith }: ProgramDeps): void {
  program
    .command("webhooks")
    .description("run a webhooks gateway: verify, enqueue, answer 202")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in webhooks.toml"))
    .addOption(opsAddress("127.0.0.1:9091"))
    .addOption(serviceId())
    .action(async (options) =>
      exitWith(await services.webhooks({ serviceId: undefined, ...withAddresses(options) })),
    );
  program
    .command("x402")
    .description("run an x402 payment gateway: verify, settle, enqueue, answer 202")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in x402.toml"))
    .addOption(opsAddress("127.0.0.1:9093"))
    .option("--drain", "sell nothing, answer who has bought, and say when another deployment may take over")
    .action(async (options) => exitWith(await services.x402(withAddresses(options))));
  program
    .command("pricing")
    .description("run a pricing engine: signed quotes over gRPC and HTTP")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in pricing.toml"))
    .addOption(opsAddress("127.0.0.1:9094"))
    .action(async (options) => exitWith(await services.pricing(withAddresses(options))));
  program
    .command("producer")
    .description("run a producer: take calls from the queue, inject them into the runner")
    .addOption(configDir())
    .addOption(opsAddress("127.0.0.1:9092"))
    .action(async (options) => exitWith(await services.producer(withAddresses(options))));
  program
    .command("runner")
    .description("run the reference runner with its example jobs")
    .addOption(configDir())
    .addOption(bindAddress("[runner] bind_address in postern.toml"))
    .action(async (options) => exitWith(await services.runner(withAddresses(options))));
  program
    .command("operator")
    .description("run the operator's console: its API over HTTP, and its page")
    .addOption(configDir())
    .addOption(bindAddress("bind_address in operator.toml, else 127.0.0.1:9300"))
    .addOption(opsAddress("127.0.0.1:9095"))
    .action(async (options) => exitWith(await services.operator(withAddresses(options))));
}

/** Commander leaves out options that were not given; the services want the keys. */
function withAddresses<Options extends { bindAddress?: string; opsAddress?: string }>(options: Options) {
  return { ...options, bindAddress: options.bindAddress, opsAddress: options.opsAddress };
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

function addDev(program: Command, { services, exitWith }: ProgramDeps): void {
  program
    .command("dev")
    .description("run everything on this machine, with a private Redis")
    .option("--config-dir <dir>", "where the configuration is; without it an example is made")
    .option("--service-id <n>", "the service all calls belong to")
    .option("--runner <url>", "your own runner, which dev does not start", parseUrl)
    .option(
      "--port-base <n>",
      "give everything that listens a fixed port, from this one on",
      wholeNumber("a port base", { min: 1, max: PORT_BASE_MAX }),
    )
    .option("--verbose", "print on a terminal too what the parts log, and not only their warnings and errors")
    .action(async ({ configDir, serviceId, runner, portBase, verbose = false }: DevOptions) =>
      exitWith(await services.dev({ configDir, serviceId, runner, portBase, verbose })),
    );
}

function addDevnet(program: Command, { services, exitWith }: ProgramDeps): void {
  program
    .command("devnet")
    .description("run a chain with a token, payers and a facilitator on this machine, all worthless")
    .addOption(port("rpc", 8545, "of the chain's JSON-RPC"))
    .addOption(port("facilitator", 8546, "of the facilitator"))
    .addOption(port("control", 8547, "of the control port: what is where, and faults on command"))
    .option("--block-time-ms <n>", "how often a block is made; 0 is never", wholeNumber("a time"), 1000)
    .action(async (options) => exitWith(await services.devnet(options)));
}

function addQuote(program: Command, deps: ProgramDeps): void {
  program
    .command("quote")
    .description("ask a pricing engine over HTTP for a signed quote, after doing its proof of work")
    .argument("<url>", "the engine's HTTP address", parseUrl)
    .argument("<service-id>", "the job's service", wholeNumber("a service id"))
    .argument("<job-index>", "the job", wholeNumber("a job index", { max: JOB_INDEX_MAX }))
    .requiredOption("--requester <address>", "who will redeem the quote, or pay with it", parseAddress)
    .option("--body <text>", "the inputs the quote is for")
    .option("--body-file <file>", "the inputs from a file")
    .option(
      "--difficulty <bits>",
      "of the engine's proof of work",
      wholeNumber("a difficulty", { max: DIFFICULTY_BEARABLE }),
      20,
    )
    .option("--json", "the engine's answer, as one JSON object")
    .action(
      async (url: URL, serviceId: number, jobIndex: number, options: QuoteOptions, command: Command) => {
        requireOneBody(command, options);
        const { showQuote } = await import("./quote.ts");
        deps.exitWith(await showQuote(deps, url, { serviceId, jobIndex }, options));
      },
    );
}

function addRates(program: Command, deps: ProgramDeps): void {
  program
    .command("rates")
    .description("show what the accepted tokens' rates are, where they come from and how old they are")
    .option(
      "--test",
      "read every source now, and say what each answers; what the gateways use stays as it is",
    )
    .option("--json", "one JSON object")
    .addOption(configDir())
    .action(async (options: RatesOptions) => {
      const { showRates } = await import("./rates.ts");
      deps.exitWith(await showRates(deps, options));
    });
}

function addStatus(program: Command, deps: ProgramDeps): void {
  program
    .command("status")
    .description("show the calls by origin, the last hour, the processes that run and what Redis promises")
    .option("--watch", "again every two seconds, until Ctrl-C")
    .option("--json", "one JSON object a line")
    .addOption(configDir())
    .action(async (options: StatusOptions) => {
      const { showStatus } = await import("./status.ts");
      deps.exitWith(await showStatus(deps, options));
    });
}

function addRedisAcl(program: Command, deps: ProgramDeps): void {
  program
    .command("redis-acl")
    .description("print the rights that a process needs of its Redis user, as a command for redis-cli")
    .addArgument(new Argument("<process>", "operator: the console, and the commands").choices(KINDS))
    .option("--json", "one JSON object")
    .action(async (user: ProcessKind, { json }: { json?: boolean }) => {
      const { aclRules } = await import("../../shared/redis/rights.ts");
      const rules = aclRules(user);
      deps.print(json ? jsonLine({ user, rules }) : `ACL SETUSER ${user} on >PASSWORD ${rules}\n`);
    });
}

function addCheckConfig(program: Command, deps: ProgramDeps): void {
  program
    .command("check-config")
    .description("say everything that is wrong with the configuration, and start nothing")
    .option("--online", "ask the accepted tokens' chains too: whether contracts and nodes are as configured")
    .addOption(configDir())
    .action(async (options: CheckOptions) => {
      const { checkConfig } = await import("./check-config.ts");
      deps.exitWith(await checkConfig(deps, options));
    });
}
