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
  { configDir, env, serviceId }: ProcessOptions,
  { log, shutdown }: Service,
) {
  const files = openConfigDir(configDir);
  const config = files.checked(part.read(files, env));
  const { file, title } = part;
  if (file !== undefined && !files.has(file)) {
    const reason = `${configDir}/${file}: file not found; without it, the ${title} is off`;
    throw new AppError("start.config_invalid", { reason });
  }
  const host = openHost(part, config, { log, serviceId });
  shutdown.defer("reports and Redis", host.end);
  return { ...host, shutdown };
}
