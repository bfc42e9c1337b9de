import { GROUP, type ProgramCommand } from "../command.ts";
import { bindAddress, configDir, opsAddress, serviceId, watch } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";

/** Adds the commands that run one service each. */
export function addServices(program: ProgramCommand, deps: ProgramDeps): void {
  addGateways(program, deps);
  addFurther(program, deps);
}

function addGateways(program: ProgramCommand, { services, exitWith }: ProgramDeps): void {
  program
    .command("webhooks")
    .description("run a webhooks gateway: verify webhooks, queue them as calls, and answer 202")
    .helpGroup(GROUP.run)
    .examples("webhooks --config-dir /etc/postern --service-id 7")
    .addOption(configDir())
    .addOption(watch())
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
    .addOption(watch())
    .addOption(bindAddress("bind_address in x402.toml"))
    .addOption(opsAddress("127.0.0.1:9093"))
    .option(
      "--drain",
      "sell nothing new, answer repeated requests of earlier payers, and report when another Redis may take over",
    )
    .action(async (options) => exitWith(await services.x402(options)));
}

function addFurther(program: ProgramCommand, { services, exitWith }: ProgramDeps): void {
  program
    .command("pricing")
    .description("run a pricing engine: sign quotes over gRPC and HTTP")
    .helpGroup(GROUP.run)
    .examples("pricing --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(watch())
    .addOption(bindAddress("bind_address in pricing.toml"))
    .addOption(opsAddress("127.0.0.1:9094"))
    .action(async (options) => exitWith(await services.pricing(options)));
  program
    .command("producer")
    .description("run a producer: read calls from the queues, and send them to the runner")
    .helpGroup(GROUP.run)
    .examples("producer --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(watch())
    .addOption(opsAddress("127.0.0.1:9092"))
    .action(async (options) => exitWith(await services.producer(options)));
  program
    .command("runner")
    .description("run the reference runner with its example jobs")
    .helpGroup(GROUP.run)
    .examples("runner --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(watch())
    .addOption(bindAddress("[runner] bind_address in postern.toml"))
    .addOption(opsAddress("127.0.0.1:9096"))
    .action(async (options) => exitWith(await services.runner(options)));
  program
    .command("operator")
    .description("run the console: the page and HTTP API for operators")
    .helpGroup(GROUP.run)
    .examples("operator --config-dir /etc/postern")
    .addOption(configDir())
    .addOption(watch())
    .addOption(bindAddress("bind_address in operator.toml, else 127.0.0.1:9300"))
    .addOption(opsAddress("127.0.0.1:9095"))
    .action(async (options) => exitWith(await services.operator(options)));
}
