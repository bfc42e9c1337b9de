import { openConfigDir } from "./config-dir.ts";
import { isTable } from "./fields.ts";

/** The names that job_pricing.toml gives to jobs, by `<service id>/<job index>`; none if the file cannot be read. Nothing is checked. */
export function loadJobNames(dir: string): Record<string, string> {
  const files = openConfigDir(dir);
  const services = files.has("job_pricing.toml") ? files.table("job_pricing.toml") : undefined;
  if (!isTable(services)) return {};
  const named = Object.entries(services).flatMap(([service, jobs]) =>
    Object.entries(isTable(jobs) ? jobs : {}).flatMap(([job, of]) =>
      isTable(of) && typeof of["name"] === "string" ? [[`${service}/${job}`, of["name"]] as const] : [],
    ),
  );
  return Object.fromEntries(named);
}
