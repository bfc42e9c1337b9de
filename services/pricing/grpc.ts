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
import { loadSync } from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";
import { HealthImplementation, protoPath as healthProto } from "grpc-health-check";
import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import { uintWord } from "../../shared/ethereum/encoding.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Ask, JobPriceAnswer, JobPriceRequest } from "./job-price.ts";
import { PROTO_OPTIONS, pricingEngineProto, SERVICE_NAME } from "./pricing-engine-proto.ts";

/**
 * What one client may hold. gRPC has no limit of its own to how long a request may take to arrive: the age of a connection
 * is that limit. Clients connect anew without losing a call that ends within the grace.
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
  /** `host:port` as bound, with the port that was chosen where 0 was asked for. */
  readonly address: string;
  /** Takes no more calls, lets those in flight end (at most `graceMs`), then ends what is left. */
  close(graceMs: number): Promise<void>;
};

type Deps = {
  ask: Ask;
  isReady: () => boolean;
  limits?: ServerOptions;
};

/** Serves PricingEngine, health and reflection on `host:port`, without TLS. Throws `start.address_unavailable`. */
export async function listenGrpc(address: string, { ask, isReady, limits }: Deps): Promise<GrpcListening> {
  const server = new Server({ ...LIMITS, ...limits });
  const engine = pricingEngineProto();
  server.addService(engine[SERVICE_NAME] as ServiceDefinition, { GetJobPrice: answerWith(ask) });
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

function answerWith(ask: Ask) {
  return async (
    { request }: ServerUnaryCall<RequestMessage, ResponseMessage>,
    reply: sendUnaryData<ResponseMessage>,
  ): Promise<void> => {
    try {
      reply(null, toResponse(await ask("grpc", () => toRequest(request))));
    } catch (thrown) {
      reply(toGrpcStatus(toAppError(thrown)));
    }
  };
}

/**
 * grpc.health.v1: the server as a whole and its one service are SERVING while quotes can be given. `follow` keeps that
 * up to date; what it returns ends that, and says so to who watches.
 */
function serveHealth(server: Server, isReady: () => boolean): { follow: () => () => void } {
  const health = new HealthImplementation();
  let known: boolean | undefined;
  const tell = (ready: boolean): void => {
    if (ready === known) return;
    known = ready;
    for (const name of ["", SERVICE_NAME]) health.setStatus(name, ready ? "SERVING" : "NOT_SERVING");
  };
  tell(isReady());
  health.addToServer(server);
  return {
    follow() {
      const timer = setInterval(() => tell(isReady()), HEALTH_EVERY_MS);
      return () => {
        clearInterval(timer);
        tell(false);
      };
    },
  };
}

function bound(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (cause, port) => {
      if (cause === null) return resolve(port);
      const reason = `cannot listen on ${address}: ${messageOf(cause)}`;
      reject(new AppError("start.address_unavailable", { reason, cause }));
    });
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

/** GetJobPriceRequest as proto-loader reads it: all fields are there, a uint64 is a decimal string. */
export type RequestMessage = {
  service_id: string;
  job_index: number;
  proof_of_work: Buffer;
  challenge_timestamp: string;
  require_tee: boolean;
  requester: Buffer;
  inputs_hash: Buffer;
};

export function toRequest(message: RequestMessage): JobPriceRequest {
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

/** GetJobPriceResponse for proto-loader to write. */
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

export type ResponseMessage = ReturnType<typeof toResponse>;

function toBytes(hex: `0x${string}`): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}

/** What gRPC calls each refusal; whatever else fails is INTERNAL. */
const STATUSES: Readonly<Partial<Record<ErrorCode, status>>> = {
  "pricing.request_invalid": status.INVALID_ARGUMENT,
  "pricing.tee_unavailable": status.UNAVAILABLE,
  "pricing.unavailable": status.UNAVAILABLE,
  "job.not_found": status.NOT_FOUND,
};

export function toGrpcStatus({ code, publicDetail }: AppError): { code: status; details: string } {
  return { code: STATUSES[code] ?? status.INTERNAL, details: publicDetail };
}

/** Makes what the gRPC library says for itself, on stderr otherwise, lines of this process' log. */
export function logGrpc(log: Logger): void {
  const say = (...words: unknown[]): void => log.warn("grpc.said", { reason: words.map(String).join(" ") });
  setLogger({ error: say, info: say, debug: say });
}
