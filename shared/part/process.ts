import { openConfigDir } from "../config/config-dir.ts";
import type { PosternConfig } from "../config/read-postern.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { Service, ServiceOptions } from "../platform/lifecycle/run-service.ts";
import { openHost, type PartKind } from "./host.ts";

/** Options of the process of a part. */
export type ProcessOptions = ServiceOptions & {
  configDir: string;
  /** Replaces the public address in the configuration. */
  bindAddress?: string | undefined;
  opsAddress?: string | undefined;
  /** Option of the webhooks gateway. */
  serviceId?: number | undefined;
  /** Whether to read the configuration again when its files change. */
  watch?: boolean | undefined;
};

/** A kind of part that runs as a process. If the part has its own `file`, the process does not start without it. */
export type ProcessPart<Config extends PosternConfig> = PartKind<Config> & {
  file?: string;
  /** Name of the process for the error message if `file` does not exist. */
  title?: string;
};

/** Reads the configuration of a part from files, connects to its Redis, and begins the reports of this process in Redis. */
export function openInProcess<Config extends PosternConfig>(
  part: ProcessPart<Config>,
  options: ProcessOptions,
  { log, shutdown }: Pick<Service, "log" | "shutdown">,
) {
  const config = readFiles(part, options);
  const host = openHost(part, config, { log, serviceId: options.serviceId });
  shutdown.defer("reports and Redis", host.end);
  return { config, host: { ...host, shutdown } };
}

/** Reads the files. Throws `start.config_invalid`, which names every problem. */
export function readFiles<Config extends PosternConfig>(
  { read, file, title }: ProcessPart<Config>,
  { configDir, env }: Pick<ProcessOptions, "configDir" | "env">,
): Config {
  const files = openConfigDir(configDir);
  const config = files.checked(read(files, env));
  if (file === undefined || files.has(file)) return config;
  const reason = `${configDir}/${file}: file not found; without it, the ${title} is off`;
  throw new AppError("start.config_invalid", { reason });
}
