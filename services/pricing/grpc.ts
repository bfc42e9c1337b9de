import {
  Server,
  ServerCredentials,
  type ServerOptions,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  setLogger,
  status,
} from "@grpc/grpc-js";
import { fromJSON, loadSync, type Options } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { HealthImplementation, protoPath as healthProto } from "grpc-health-check";
import { uintWord } from "../../shared/chain/encoding.ts";
import {
  type Addressed,
  type ClientAddressOf,
  createClientAddressOf,
} from "../../shared/http/client-address.ts";
import { listenAddressText } from "../../shared/http/ip/listen-address.ts";
import { parseAddress } from "../../shared/http/listen.ts";
import { AppError, messageOf, toAppError } from "../../shared/platform/errors/app-error.ts";
import type { ErrorCode } from "../../shared/platform/errors/codes.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { AskPrice, JobPriceAnswer, JobPriceRequest } from "./job-price.ts";
import descriptor from "./pricing-engine.proto";

/**
 * Options for reading messages. A uint64 becomes a decimal string, because a number would lose digits. Fields keep their names
 * from the .proto file.
 */
const PROTO_OPTIONS: Options = { keepCase: true, longs: String, defaults: true };
const SERVICE_NAME = "pricing_engine.PricingEngine";

/**
 * Limits for each connection. gRPC has no time limit for the arrival of a request. So the age of a connection is limited instead.
 * When a connection reaches this age, its client must reconnect. No call is lost if it ends within the grace period.
 */
const LIMITS = {
  "grpc.max_receive_message_length": 16 * 1024,
  "grpc.max_concurrent_streams": 100,
  "grpc.max_connection_idle_ms": 5 * 60_000,
  "grpc.max_connection_age_ms": 5 * 60_000,
  "grpc.max_connection_age_grace_ms": 10_000,
  "grpc.keepalive_time_ms": 60_000,
  "grpc.keepalive_timeout_ms": 20_000,
};
const HEALTH_EVERY_MS = 200;

export type GrpcListening = {
  /** The bound `host:port`, with the chosen port if port 0 was requested. */
  readonly address: string;
  /** Accepts no further calls, lets those in flight end for at most `graceMs`, then aborts the rest. */
  close(graceMs: number): Promise<void>;
};

export type GrpcParts = {
  ask: AskPrice;
  isReady: () => boolean;
  /**
   * Returns the client's address. A proof of work may be used only a few times from one address. By default, the address is that
   * of the connection's peer.
   */
  addressOf?: ClientAddressOf;
};

type Deps = GrpcParts & { limits?: ServerOptions };

/** Serves PricingEngine, health and reflection on `host:port`, without TLS. Throws `start.address_unavailable`. */
export async function listenGrpc(address: string, deps: Deps): Promise<GrpcListening> {
  const { ask, isReady, addressOf = createClientAddressOf(), limits } = deps;
  const server = new Server({ ...LIMITS, ...limits });
  const engine = fromJSON(descriptor, PROTO_OPTIONS);
  server.addService(engine[SERVICE_NAME] as ServiceDefinition, { GetJobPrice: answerWith(ask, addressOf) });
  const health = serveHealth(server, isReady);
  new ReflectionService({ ...engine, ...loadSync(healthProto, PROTO_OPTIONS) }).addToServer(server);
  const port = await bound(server, address);
  const endHealth = health.follow();
  return {
    address: address.replace(/\d+$/, String(port)),
    close(graceMs) {
      endHealth();
      return closeServer(server, graceMs);
    },
  };
}

type Call = ServerUnaryCall<RequestMessage, ResponseMessage>;

function answerWith(ask: AskPrice, addressOf: ClientAddressOf) {
  return async (call: Call, reply: sendUnaryData<ResponseMessage>): Promise<void> => {
    try {
      const address = addressOf(addressedBy(call));
      reply(null, toResponse(await ask("grpc", () => ({ ...toRequest(call.request), address }))));
    } catch (thrown) {
      reply(toGrpcStatus(toAppError(thrown)));
    }
  };
}

/**
 * Returns the address of the call's connection, and the headers in which a proxy names the client's address. gRPC writes the peer
 * as `<address>:<port>`, without brackets around an IPv6 address.
 */
function addressedBy(call: Call): Addressed {
  const told = ["x-forwarded-for", "forwarded"].flatMap((name) =>
    call.metadata.get(name).flatMap((value) => [name, String(value)]),
  );
  return { socket: { remoteAddress: call.getPeer().replace(/:\d+$/, "") }, rawHeaders: told };
}

/**
 * Serves grpc.health.v1. The server and its one service are SERVING while quotes can be given. `follow` starts a timer that keeps
 * the status up to date. It returns a function that stops the timer and sends NOT_SERVING to all watchers.
 */
function serveHealth(server: Server, isReady: () => boolean): { follow: () => () => void } {
  const health = new HealthImplementation();
  let known: boolean | undefined;
  const report = (ready: boolean): void => {
    if (ready === known) return;
    known = ready;
    for (const name of ["", SERVICE_NAME]) health.setStatus(name, ready ? "SERVING" : "NOT_SERVING");
  };
  report(isReady());
  health.addToServer(server);
  return {
    follow() {
      const timer = setInterval(() => report(isReady()), HEALTH_EVERY_MS);
      return () => {
        clearInterval(timer);
        report(false);
      };
    },
  };
}

function bound(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(
      listenAddressText(parseAddress(address)),
      ServerCredentials.createInsecure(),
      (cause, port) => {
        if (cause === null) return resolve(port);
        const reason = `cannot listen on ${address}: ${messageOf(cause)}`;
        reject(new AppError("start.address_unavailable", { reason, cause }));
      },
    );
  });
}

function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, graceMs);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** GetJobPriceRequest as proto-loader reads it: no field is missing, and a uint64 is a decimal string. */
type RequestMessage = {
  service_id: string;
  job_index: number;
  proof_of_work: Buffer;
  challenge_timestamp: string;
  require_tee: boolean;
  requester: Buffer;
  inputs_hash: Buffer;
};

function toRequest(message: RequestMessage): JobPriceRequest {
  return {
    serviceId: BigInt(message.service_id),
    jobIndex: message.job_index,
    proofOfWork: message.proof_of_work,
    challengeTimestamp: BigInt(message.challenge_timestamp),
    requireTee: message.require_tee,
    requester: message.requester,
    inputsHash: message.inputs_hash,
  };
}

/** Converts an answer to GetJobPriceResponse in proto-loader's form. */
export function toResponse({ signed, operator, proofOfWork, settlement }: JobPriceAnswer) {
  const { quote, signature } = signed;
  return {
    quote_details: {
      service_id: String(quote.serviceId),
      job_index: quote.jobIndex,
      price: Buffer.from(uintWord(quote.priceWei), "hex"),
      timestamp: String(quote.timestamp),
      expiry: String(quote.expiry),
      confidentiality: quote.confidentiality,
      requester: toBytes(quote.requester),
      inputs_hash: toBytes(quote.inputsHash),
    },
    signature: toBytes(signature),
    operator_id: toBytes(operator),
    proof_of_work: proofOfWork,
    ...(settlement && { settlement_options: settlement.options, x402_endpoint: settlement.endpoint }),
    tee_attested: false,
    tee_provider: "",
  };
}

type ResponseMessage = ReturnType<typeof toResponse>;

function toBytes(hex: `0x${string}`): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}

/** The gRPC status for each error code. All other errors are INTERNAL. */
const STATUSES: Readonly<Partial<Record<ErrorCode, status>>> = {
  "pricing.request_invalid": status.INVALID_ARGUMENT,
  "pricing.tee_unavailable": status.UNAVAILABLE,
  "pricing.unavailable": status.UNAVAILABLE,
  "job.not_found": status.NOT_FOUND,
};

function toGrpcStatus({ code, publicDetail }: AppError): { code: status; details: string } {
  return { code: STATUSES[code] ?? status.INTERNAL, details: publicDetail };
}

/** Sends the gRPC library's own messages to the log of this process. By default, the library writes them to stderr. */
export function logGrpc(log: Logger): void {
  const say = (...words: unknown[]): void =>
    log.warn("grpc.warning", { reason: words.map(String).join(" ") });
  setLogger({ error: say, info: say, debug: say });
}
