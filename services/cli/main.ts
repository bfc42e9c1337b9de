#!/usr/bin/env node
import { createRequire } from "node:module";
import { CommanderError } from "commander";
import type { OutputOptions } from "./output.ts";
import { buildProgram } from "./program.ts";
import { createTerminal } from "./terminal.ts";

const { env } = process;

/**
 * Returns the log settings of a service. --quiet leaves only warnings and errors. A terminal gets text, unless -o
 * json is given.
 */
const logging = ({ output, quiet = false }: OutputOptions) => ({
  env: quiet ? { ...env, POSTERN_LOG_LEVEL: "warn" } : env,
  pretty: process.stdout.isTTY === true && output !== "json",
});

/**
 * The version of the package. The file is found by the package's own name instead of a path, so that this works both in
 * the sources and in dist/.
 */
const { version } = createRequire(import.meta.url)("postern/package.json") as { version: string };

/**
 * Ends the process once the service has stopped and closed all that it opened. Without this, the process could stay
 * alive, because BullMQ keeps waiting for an unavailable Redis.
 */
const end = async (service: Promise<number>): Promise<never> => process.exit(await service);

/** All commands. Each service is imported only when a command starts it. */
const program = buildProgram({
  version,
  env,
  services: {
    webhooks: async (options) =>
      end((await import("../webhooks-gateway/main.ts")).runWebhooks({ ...options, ...logging(options) })),
    x402: async (options) =>
      end((await import("../x402-gateway/main.ts")).runX402({ ...options, ...logging(options) })),
    pricing: async (options) =>
      end((await import("../pricing/main.ts")).runPricing({ ...options, ...logging(options) })),
    producer: async (options) =>
      end((await import("../producer/main.ts")).runProducer({ ...options, ...logging(options) })),
    runner: async (options) =>
      end((await import("../runner/main.ts")).runRunner({ ...options, ...logging(options) })),
    operator: async (options) =>
      end((await import("../console/main.ts")).runOperator({ ...options, ...logging(options) })),
    devnet: async (options) =>
      end((await import("../dev/chain/main.ts")).runDevnet({ ...options, ...logging(options) })),
    dev: async (options) => end((await import("../dev/main.ts")).runDev({ ...options, ...logging({}) })),
  },
  terminal: createTerminal(process),
  print: (text) => process.stdout.write(text),
  printError: (text) => process.stderr.write(text),
  exitWith: (code) => {
    process.exitCode = code;
  },
});

// The program that reads the output may close it early, as `head` does (EPIPE). The process then ends without an error.
// If the terminal was closed (EIO), the process has also received SIGHUP, and the handler of that signal ends it.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EIO") return;
  if (error.code !== "EPIPE") throw error;
  process.exit();
});

try {
  await program.parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
}
