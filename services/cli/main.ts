#!/usr/bin/env node
import { CommanderError } from "commander";
import { buildProgram } from "./program.ts";
import { createTerminal } from "./terminal.ts";

const { env } = process;
const pretty = process.stdout.isTTY === true && env["NO_COLOR"] === undefined;

/**
 * A service that has closed what it opened ends the process, whatever a library may still wait for: BullMQ, for one, for a
 * Redis that is away.
 */
const end = async (service: Promise<number>): Promise<never> => process.exit(await service);

/** Each command loads only the service it starts. */
const program = buildProgram({
  env,
  services: {
    webhooks: async (options) =>
      end((await import("../webhooks-gateway/main.ts")).runWebhooks({ ...options, env, pretty })),
    x402: async (options) =>
      end((await import("../x402-gateway/main.ts")).runX402({ ...options, env, pretty })),
    pricing: async (options) =>
      end((await import("../pricing/main.ts")).runPricing({ ...options, env, pretty })),
    producer: async (options) =>
      end((await import("../producer/main.ts")).runProducer({ ...options, env, pretty })),
    runner: async (options) =>
      end((await import("../runner/main.ts")).runRunner({ ...options, env, pretty })),
    devnet: async (options) =>
      end((await import("../devnet/main.ts")).runDevnet({ ...options, env, pretty })),
    dev: async (options) => end((await import("../dev/main.ts")).runDev({ ...options, env, pretty })),
  },
  terminal: createTerminal(process),
  print: (text) => process.stdout.write(text),
  printError: (text) => process.stderr.write(text),
  exitWith: (code) => {
    process.exitCode = code;
  },
});

// Whoever reads the output may have had enough, as `head` does.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit();
});

try {
  await program.parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
}
