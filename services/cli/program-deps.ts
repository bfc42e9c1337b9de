import type { Env } from "../../shared/config/secrets.ts";
import type { Output, OutputOptions } from "./output.ts";
import type { Terminal } from "./terminal.ts";

type Configured = { configDir: string } & OutputOptions;
type Reloads = { watch?: boolean };
type Listens = Reloads & { bindAddress?: string; opsAddress?: string };

/** Everything that a command can use: its surroundings, and functions that write its output. */
export type ProgramDeps = Surroundings & Output;

/** Version, environment variables, services and terminal of the program, as main.ts provides them. */
export type Surroundings = {
  /** The version in package.json. */
  version: string;
  env: Env;
  /** Each function runs a service until it is stopped, and resolves with its exit code. */
  services: {
    webhooks(options: Configured & Listens & { serviceId?: number }): Promise<number>;
    x402(options: Configured & Listens): Promise<number>;
    pricing(options: Configured & Listens): Promise<number>;
    producer(options: Configured & Reloads & { opsAddress?: string }): Promise<number>;
    operator(options: Configured & Listens): Promise<number>;
    runner(options: Configured & { bindAddress?: string }): Promise<number>;
    devnet(
      options: {
        rpcPort: number;
        facilitatorPort: number;
        controlPort: number;
        blockTimeMs: number;
      } & OutputOptions,
    ): Promise<number>;
    dev(options: {
      configDir: string | undefined;
      serviceId: string | undefined;
      runner: URL | undefined;
      portBase: number | undefined;
      verbose: boolean;
    }): Promise<number>;
  };
  terminal: Terminal;
  print: (text: string) => void;
  printError: (text: string) => void;
  exitWith: (code: number) => void;
};
