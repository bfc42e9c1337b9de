import { openConfigDir } from "../config/config-dir.ts";
import type { PosternConfig } from "../config/read-postern.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { Service, ServiceOptions } from "../platform/lifecycle/run-service.ts";
import { openHost, type PartKind } from "./host.ts";

/** Options of the process of a part. */
export type ProcessOptions = ServiceOptions & {
  configDir: string;
  /** In place of the address in the configuration. */
  bindAddress?: string | undefined;
  opsAddress?: string | undefined;
  /** The webhooks gateway's. */
  serviceId?: number | undefined;
  /** Read the configuration again when its files change. */
  watch?: boolean | undefined;
};

/** A kind of part as a process, which does not start without the part's own file. */
export type ProcessPart<Config extends PosternConfig> = PartKind<Config> & {
  file?: string;
  /** The process, as the message about an absent file calls it. */
  title?: string;
};

/** Reads the configuration of a part from files, and opens what the part is composed of. */
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

/** Throws `start.config_invalid`, which names all that is wrong. */
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
