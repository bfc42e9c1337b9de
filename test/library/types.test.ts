import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, expectTypeOf, test } from "vitest";
import type { TokenOptions } from "../../services/pricing/pricing.ts";
import type {
  CallbackSettingsOptions,
  JobSettingsOptions,
  ProducerOptions,
} from "../../services/producer/producer.ts";
import type { EndpointOptions, WebhooksGatewayOptions } from "../../services/webhooks-gateway/gateway.ts";
import type { JobPolicyOptions, X402GatewayOptions } from "../../services/x402-gateway/gateway.ts";
import type { EndpointFields } from "../../shared/config/endpoint-fields.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import type { WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import type { AcceptedToken, JobPolicy, X402Toml } from "../../shared/config/x402-toml.ts";
import { productionPackages } from "../support/consumer.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { exports: entries, dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, string | { types: string }>;
  dependencies: Record<string, string>;
};

/** The packages that a file of types imports, with all that it imports. */
function packagesIn(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file)) return [];
  seen.add(file);
  const targets = [...readFileSync(file, "utf8").matchAll(/(?:from |import\(|import )"([^"]+)"/g)].map(
    (match) => String(match[1]),
  );
  return targets.flatMap((target) => {
    if (target.startsWith("node:")) return ["@types/node"];
    if (!target.startsWith(".")) return [String(/^(?:@[^/]+\/)?[^/]+/.exec(target)?.[0])];
    const declared = join(dirname(file), target.replace(/\.[tj]s$/, ".d.ts"));
    return existsSync(declared) ? packagesIn(declared, seen) : [`no ${declared}`];
  });
}

test("every package that the public types import is a dependency, so an install brings it, and express is none of them", () => {
  const files = Object.values(entries).flatMap((entry) => (typeof entry === "string" ? [] : [entry.types]));
  const packages = new Set(files.flatMap((file) => packagesIn(join(root, file))));
  expect([...packages].filter((name) => dependencies[name] === undefined)).toEqual([]);
  expect(productionPackages()).toEqual(expect.arrayContaining([...packages]));
  expect(packages).not.toContain("express");
});

type Camel<Key> = Key extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : Key;
type KeysOf<Table> = Table extends unknown ? Camel<keyof Table & string> : never;
type OptionsOf<Options> = Options extends unknown ? keyof Options & string : never;

test("the hand-written types of options have exactly the keys of the files", () => {
  type Gateway =
    | "redis"
    | "log"
    | "console"
    | "metadataPrefix"
    | "durability"
    | "declared"
    | "limits"
    | "http"
    | "results"
    | "mountPath";
  expectTypeOf<OptionsOf<EndpointOptions>>().toEqualTypeOf<KeysOf<EndpointFields>>();
  expectTypeOf<Exclude<OptionsOf<WebhooksGatewayOptions>, Gateway | "serviceId">>().toEqualTypeOf<
    Exclude<KeysOf<WebhooksToml>, "bindAddress">
  >();
  /** A gateway's file takes these and has made other keys of them, or gives them to its tokens. */
  type Read = "facilitatorUrl" | "facilitatorHeaders" | "ratePerNativeUnit" | "markupBps";
  expectTypeOf<Exclude<OptionsOf<X402GatewayOptions>, Gateway | Read | "jobs" | "authorize">>().toEqualTypeOf<
    Exclude<KeysOf<X402Toml>, "bindAddress">
  >();
  expectTypeOf<OptionsOf<TokenOptions>>().toEqualTypeOf<KeysOf<AcceptedToken>>();
  expectTypeOf<OptionsOf<JobPolicyOptions>>().toEqualTypeOf<KeysOf<JobPolicy>>();
  type Callbacks = NonNullable<PosternToml["callbacks"]>;
  expectTypeOf<OptionsOf<CallbackSettingsOptions>>().toEqualTypeOf<KeysOf<Callbacks>>();
  expectTypeOf<OptionsOf<JobSettingsOptions>>().toEqualTypeOf<KeysOf<PosternToml["jobs"][string]>>();
  type Limits = NonNullable<WebhooksGatewayOptions["limits"]>;
  expectTypeOf<OptionsOf<Limits>>().toEqualTypeOf<KeysOf<PosternToml["limits"]>>();
  type Http = NonNullable<WebhooksGatewayOptions["http"]>;
  expectTypeOf<OptionsOf<Http>>().toEqualTypeOf<KeysOf<PosternToml["http"]>>();
  type Console = NonNullable<WebhooksGatewayOptions["console"]>;
  expectTypeOf<OptionsOf<Console>>().toEqualTypeOf<"report">();
  type ProducerConsole = NonNullable<ProducerOptions["console"]>;
  expectTypeOf<OptionsOf<ProducerConsole>>().toEqualTypeOf<KeysOf<PosternToml["console"]>>();
  /** How results are kept is the producers' to say; deliveries come to the address of a process. */
  type OfProducers = "secs" | "resultBytesMax" | "bytesMax" | "deliveries";
  type Results = NonNullable<WebhooksGatewayOptions["results"]>;
  expectTypeOf<OptionsOf<Results>>().toEqualTypeOf<Exclude<KeysOf<PosternToml["results"]>, OfProducers>>();
});
