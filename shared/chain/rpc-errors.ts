import { AppError } from "../platform/errors/app-error.ts";

/** The node did not answer the request. */
class Unanswered extends AppError {
  constructor(reason: string) {
    super("payment.unavailable", { reason });
  }
}

/** The node limits the rate of requests. The same request may succeed later. */
export class RateLimited extends Unanswered {}

/** The node serves another chain than the configured one. */
export class WrongChain extends Unanswered {}

/** The node refused the request. It may answer a smaller request. */
export class Refused extends Unanswered {}

/** A contract reverted the call, or has no such function. */
export class Reverted extends Refused {}

/** The node reports a failure of its own, not a fault of the request (JSON-RPC -32603). */
class InternalError extends Refused {}

/** The answer exceeds the size limit. A retry would exceed the limit again. */
export class TooLong extends Refused {}

export function unavailable(reason: string): AppError {
  return new Unanswered(reason);
}

export function unlessRefused(error: unknown): undefined {
  if (!(error instanceof Refused)) throw error;
}

export function unlessTooLong(error: unknown): "too long" {
  if (error instanceof TooLong) return "too long";
  throw error;
}

type RpcError = { code: number | undefined; message: string };

/** Reads the error of a JSON-RPC response. Ignores a code that is not a number and a message that is not text. */
export function errorIn({ error }: { error?: unknown }): RpcError | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return {
    code: typeof code === "number" ? code : undefined,
    message: typeof message === "string" ? message : "",
  };
}

/**
 * Converts an unexpected HTTP status to an error. Statuses 400, 413 and 422 mean that the node refuses this request. Other
 * statuses concern the caller or the node's health, so the same request may succeed later. For eth_getLogs, most statuses count
 * as a refusal, because providers use many of them for a range with too many logs.
 */
export function refusal(method: string, status: number): AppError {
  const reason = `${method}: status ${status}`;
  if (status === 429) return new RateLimited(reason);
  if (method === "eth_getLogs" && ![401, 403, 404].includes(status)) return new Refused(reason);
  return [400, 413, 422].includes(status) ? new Refused(reason) : unavailable(reason);
}

export function refusalOf(error: RpcError, reason: string): AppError {
  if (isRateLimit(error)) return new RateLimited(reason);
  if (isRevert(error)) return new Reverted(reason);
  return error.code === -32_603 ? new InternalError(reason) : new Refused(reason);
}

const HALTS =
  /revert|opcode|invalid ?jump|out ?of ?(gas|offset|bounds)|stack ?(limit|underflow|overflow)|VM (execution|exception)/i;

/**
 * Whether the contract's code failed, by a revert or another halt of the VM. Most nodes report a revert with code 3 or "execution
 * reverted". Other halts, such as an invalid opcode, have their own messages.
 */
function isRevert({ code, message }: RpcError): boolean {
  return code === 3 || HALTS.test(message);
}

/**
 * Whether a JSON-RPC error reports a rate limit. No error code is reserved for this. Code -32005 means "limit exceeded" (EIP-1474), but
 * some providers also use it for too many logs.
 */
export function isRateLimit({ code, message }: RpcError): boolean {
  if (/rate.?limit|too many requests|requests? (limit|per)|compute units|capacity|throttl/i.test(message))
    return true;
  return code === 429 || (code === -32005 && !/range|results|logs|size|blocks/i.test(message));
}

/**
 * Whether an immediate retry may succeed. After an internal error of eth_getLogs it would not, because the node was asked for too many
 * logs.
 */
export function isRetryable(error: unknown, method: string): boolean {
  if (error instanceof InternalError) return method !== "eth_getLogs";
  return error instanceof Error && error.constructor === Unanswered;
}
