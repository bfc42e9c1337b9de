import {
  bodyBudgetProblems,
  forwardedMetadata,
  tokenlessResults,
  waitProblems,
} from "../../shared/config/between-files.ts";
import { id } from "../../shared/config/fields.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import {
  repeatedPaths,
  type WebhooksToml,
  webhooksToml,
  webhooksWarnings,
} from "../../shared/config/webhooks-toml.ts";
import { COMMON, type GatewayOptions, readCommon } from "../../shared/library/common-options.ts";
import { checkOptions, tableOf } from "../../shared/library/option-check.ts";
import { toOptionWarning } from "../../shared/library/option-names.ts";
import type { Algorithm, Encoding, SecretFormat, TimeUnit } from "../../shared/senders/description.ts";

/** The options of `createWebhooksGateway`: the keys of `webhooks.toml` in camelCase, and those that all gateways have. */
export type WebhooksGatewayOptions = GatewayOptions & {
  /** At least one. */
  endpoints: readonly EndpointOptions[];
  /** The service that the calls belong to; it goes to the runner. 0 by default. */
  serviceId?: number;
  /** Bytes of a body, for endpoints without a limit of their own: at most 64 MiB, 1 MiB by default. */
  bodyLimitBytes?: number;
  /** Seconds in which a whole request has to arrive at a server of `listen()`. 15 by default. */
  requestTimeoutSecs?: number;
  /** Seconds for which a delivery id is remembered after its call has ended. 604,800 (7 days) by default. */
  idempotencyWindowSecs?: number;
  /** Wrong credentials of one address in a minute, before it gets 429. 60 by default. */
  refusalsPerMinute?: number;
};

/** `perSecond` requests a second on average, and `burst` at once: as many as in a second by default. */
export type RateLimitOptions = { perSecond: number; burst?: number };

/** An endpoint: an `[[endpoints]]` table of `webhooks.toml` in camelCase (docs/webhooks.md). */
export type EndpointOptions = {
  /** Matched exactly, without the query; without the path under which your server has the gateway. */
  path: string;
  /** A sender of docs/senders.md, such as `github`. What the endpoint says itself wins. */
  preset?: string;
  /** How the sender proves who it is; needed without a preset. */
  auth?: "none" | "bearer" | "basic" | "api-key" | "token" | "hmac-sha256" | "signature";
  /** The secret, `env:NAME` or `file:/path`. Of several, each is good: so one can be rotated without a gap. */
  secret?: string | readonly string[];
  /** The job that each request runs; `routeBy` chooses among several. */
  jobId?: number;
  /** Chooses the job by a header, or by a field of the JSON body (a JSON Pointer). */
  routeBy?: {
    header?: string;
    field?: string;
    /** Job ids by the value there. */
    jobs: Readonly<Record<string, number>>;
    /** What becomes of other values. `drop` by default: a 202, and no job. */
    unmatched?: "drop" | "refuse";
  };
  /** Told to the runner. */
  name?: string;
  /** `["POST"]` by default. */
  methods?: readonly ("POST" | "PUT")[];
  /** The URL as it was given to a sender that signs it: whole, with the path under which your server has the gateway. */
  publicUrl?: string;
  /** With `basic`. */
  username?: string;
  /** With `api-key`. `X-API-Key` by default. */
  apiKeyHeader?: string;
  /** With `token`: the query parameter, or the field of the JSON body, that holds it. */
  tokenQuery?: string;
  tokenField?: string;
  /** With `signature`: one way to sign, or several. */
  signature?: SignatureOptions | readonly SignatureOptions[];
  /** What a signature covers if the body is encoded. `received` by default. */
  signatureOver?: "received" | "decoded";
  /** The header of the delivery's id; `deliveryId` is a template for ids elsewhere. */
  idempotencyHeader?: string;
  deliveryId?: string;
  /** A template for the type of the event, which is told to the runner. */
  eventType?: string;
  /** Seconds; that of the gateway by default. */
  idempotencyWindowSecs?: number;
  /** Headers that go to the runner. None by default. */
  forwardHeaders?: readonly string[];
  /** Whether the query goes to the runner. False by default. */
  forwardQuery?: boolean;
  /** Bytes; that of the gateway by default. */
  bodyLimitBytes?: number;
  /** Whether bodies with a Content-Encoding are decoded. `refuse` by default. */
  encodedBodies?: "refuse" | "decode";
  answer?: AnswerOptions;
  /** Whether what the runner answers is kept, for whoever asks for it later. False by default. */
  keepResult?: boolean;
  /** What the sender is answered with: that the call is accepted, at once, or what it comes to, which is then kept. `accepted` by default. */
  respond?: "accepted" | "result";
  /** With `result`: seconds after which the answer is that the call is accepted. 3 by default. */
  waitSecs?: number;
  /** Who is told of the end of each call (docs/callbacks.md), by a producer that sends callbacks. */
  callbackUrl?: string;
  /** Or the hosts that a request may name itself, in the header `X-PLATFORM-CALLBACK`: `hooks.example.com`, or `*.example.com`. */
  callbackHosts?: readonly string[];
  handshakes?: readonly HandshakeOptions[];
  /** The token that a sender has to know in its handshake, as `secret`. */
  verifyToken?: string;
  /** Addresses and CIDR ranges that may send; anybody by default. */
  allowIps?: readonly string[];
  /** Of all requests with a good credential, and of those of one address. No limit by default. */
  rateLimit?: RateLimitOptions;
  rateLimitPerAddress?: RateLimitOptions;
  /** Whether bodies of refused requests are kept for `postern rejected`. False by default. */
  keepRejectedBodies?: boolean;
};

/** The answer to an accepted request. 202 with Postern's JSON by default. */
export type AnswerOptions = {
  status?: 200 | 201 | 202 | 204;
  contentType?: string;
  body?: string;
  /** The status over a rate limit. 429 by default. */
  limited?: 429 | 503;
  /** The status after too many wrong credentials. 429 by default. */
  refusalsLimited?: 401 | 429;
};

/** A way to sign (docs/webhooks.md). */
export type SignatureOptions = {
  /** Where the signature is: exactly one of header, query and field. */
  header?: string | readonly string[];
  query?: string;
  field?: string;
  anyHeader?: boolean;
  prefix?: string;
  prefixOptional?: boolean;
  list?: { separator: string; assign?: string; key?: string };
  encoding?: Encoding;
  algorithm: Algorithm;
  secretFormat?: SecretFormat;
  /** A template of what is signed. `{body}` by default. */
  signed?: string;
  bodySha256Query?: string;
  formBeginsWith?: string;
  urlPortOptional?: boolean;
  timestamp?: TimestampOptions;
  /** Headers that must have exactly this value. */
  require?: Readonly<Record<string, string>>;
};

/** When it was signed: exactly one of header, pair and field says it. */
export type TimestampOptions = {
  header?: string;
  pair?: string;
  field?: string;
  unit: TimeUnit;
  /** Seconds that it may be old, or ahead of our clock. Without them only its form is checked. */
  pastSecs?: number;
  futureSecs?: number;
};

/** A request by which a sender sets up an endpoint (docs/webhooks.md). */
export type HandshakeOptions = {
  method?: "GET" | "HEAD" | "OPTIONS" | "POST";
  when?: Readonly<Record<string, string>>;
  form?: Readonly<Record<string, string>>;
  proof: "none" | "credential" | { verifyToken: string } | { secretHeader: string };
  status?: 200 | 204;
  contentType?: string;
  body?: string;
  json?: Readonly<Record<string, string | number>>;
  headers?: Readonly<Record<string, string>>;
  mac?: { of: string; encoding: "hex" | "base64"; prefix?: string };
};

type Read = { webhooks: WebhooksToml; postern: PosternToml; warnings: readonly string[] };

/** @internal The options as a checked configuration. Throws `start.config_invalid`. */
export function readWebhooksOptions(options: WebhooksGatewayOptions): Read {
  const check = checkOptions(options);
  const postern = readCommon(check, options, "requests");
  if (options.serviceId !== undefined)
    check.read({ schema: id, table: options.serviceId, placeOf: () => ["serviceId"] });
  if ("bindAddress" in options) check.reportOption("bindAddress", "is what listen() takes");
  const table = tableOf(options, [...COMMON, "serviceId", "bindAddress"]);
  const schema = webhooksToml({ env: check.env });
  const webhooks = check.read({ name: "webhooks", schema, table, problemsIn: repeatedPaths });
  for (const rule of [bodyBudgetProblems, forwardedMetadata, tokenlessResults, waitProblems])
    check.reportBetween<[PosternToml, WebhooksToml]>(["postern", "webhooks"], rule);
  const warnings = webhooks === undefined ? [] : webhooksWarnings(webhooks).map(toOptionWarning);
  return check.checked(postern && webhooks && { webhooks, postern, warnings });
}
