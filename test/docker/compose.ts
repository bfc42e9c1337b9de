import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { PAY_TO } from "../shared/config/x402-files.ts";
import { tempDir } from "../support/temp-dir.ts";

export type Service = {
  image: string;
  profiles?: string[];
  configs?: { source: string; target: string }[];
  extra_hosts?: string[];
  build?: string;
  command?: string[];
  volumes: string[];
  environment?: Record<string, string | null>;
  healthcheck?: { test: string[] };
  depends_on?: Record<string, { condition: string }>;
  ports?: string[];
  networks?: string[] | { default: { ipv4_address: string } };
  read_only?: boolean;
  security_opt?: string[];
  cap_drop?: string[];
  tmpfs?: string[];
};

export const root = fileURLToPath(new URL("../..", import.meta.url));
export const read = (path: string) => readFileSync(join(root, path), "utf8");
export const composeText = read("docker-compose.yml");
export const compose = parse(composeText, { merge: true }) as {
  services: Record<string, Service>;
  networks: { default: { ipam: { config: Record<string, string>[] } } };
  volumes: object;
  configs: Record<string, { content: string }>;
};
export const { services } = compose;
/** Services that run our image. */
export const ours = Object.entries(services).filter(([, { build }]) => build !== undefined);

/** Configuration directory of all compose processes. */
export const CONFIG = "config/docker/postern";

export const SECRET = "5f0c4f8e7d1a6b2393ce1f6a0d78b54e19b7d3f06c8ea24c57f1902be6ad3847";

/** Interpolates a text as compose does. All variables have the same value here. */
export const interpolated = (given: string) => given.replaceAll(/\$\{\w+:\?[^}]*\}|\$\{\w+\}/g, SECRET);

/** Returns the environment of a process. A variable without a value comes from .env. */
export function environmentOf({ environment = {} }: Service): Record<string, string> {
  const values = Object.entries(environment).map(([name, value]) => [
    name,
    interpolated(value ?? (name === "POSTERN_RPC_URL" ? "https://node.example.com" : SECRET)),
  ]);
  return Object.fromEntries(values);
}

type Swap = readonly [from: string, to: string];

/** Creates a copy of the configuration with a complete x402.toml, and replaces these texts. */
export function filledConfig(...swaps: readonly Swap[]): string {
  const dir = tempDir();
  cpSync(join(root, CONFIG), dir, { recursive: true });
  const all: Swap[] = [[`"0x${"0".repeat(40)}"`, `"${PAY_TO}"`], ...swaps];
  for (const name of ["postern.toml", "x402.toml"]) {
    const file = join(dir, name);
    const text = all.reduce((given, [from, to]) => given.replaceAll(from, to), readFileSync(file, "utf8"));
    writeFileSync(file, text);
  }
  return dir;
}
