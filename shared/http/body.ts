import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError, toAppError } from "../platform/errors/app-error.ts";
import { BodyPieces } from "./body-pieces.ts";
import { lingerOnClose } from "./linger.ts";
import { ReadingTurns } from "./reading-turns.ts";
import { transferCodingProblem } from "./transfer-coding.ts";

/** Counts the bytes that one body takes from the process's body budget (body-budget.ts). */
type Lease = { take(bytes: number): void; arrived(bytes: number): void; release(): void };

/** Limits how many bytes of all bodies this process reads in one turn of the event loop. */
const turns = new ReadingTurns();

/** Consumer of a body's bytes. */
type Sink<Whole> = {
  /** Takes a chunk. `isWhole` is true if the chunk is the whole body by its declared length. */
  add(chunk: Buffer, isWhole: boolean): void;
  /** Runs after the last byte. An error thrown here refuses the body. */
  whole(): Whole;
  discard(): void;
};

type ReadOptions = {
  /**
   * Counts the bytes as they arrive. A refused body releases the lease. After a whole body, the caller must release it.
   */
  lease?: Lease | undefined;
  /**
   * Receives the bytes in order as they arrive, before the body is complete. It must not throw and must not keep them.
   */
  onBytes?: ((bytes: Buffer) => void) | undefined;
  /**
   * Runs after the last byte. An error thrown here refuses the body while it is still in pieces. To join the pieces
   * first would use as much memory again.
   */
  onEnd?: (() => void) | undefined;
};

/**
 * Reads the request's bytes as received, of any type and framing. Without a body the result is empty. Throws
 * `request.too_large` once the declared or the received length is over the limit. Throws
 * `request.transfer_coding_unsupported` before reading anything. Throws `request.body_consumed` if other code has read
 * part of the body. Rejects with the reason if the request is aborted.
 */
export function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  limitBytes: number,
  { lease, onBytes, onEnd }: ReadOptions = {},
): Promise<Buffer> {
  const pieces = new BodyPieces();
  return collect(req, res, limitBytes, {
    add(chunk, isWhole) {
      const taken = pieces.add(chunk);
      // A body that arrives whole in its first chunk is counted only once, by `arrived` after its last byte.
      if (!isWhole) lease?.take(taken);
      onBytes?.(chunk);
    },
    whole() {
      onEnd?.();
      const body = pieces.whole();
      lease?.arrived(body.length);
      return body;
    },
    discard() {
      pieces.discard();
      lease?.release();
    },
  });
}

/** Takes bytes of a body that have arrived and that no code has read: at most `bytesMax`. It does not wait for more. */
export function takeArrived(req: IncomingMessage, bytesMax: number): Buffer | undefined {
  const bytes = Math.min(req.readableLength, bytesMax);
  const taken: unknown = bytes === 0 ? undefined : req.read(bytes);
  return Buffer.isBuffer(taken) ? taken : undefined;
}

/**
 * Returns the body's SHA-256 in hex. Returns the body too, if it has at most `keptBytesMax` bytes. Throws what
 * `readBody` throws.
 */
export async function readBodyUpTo(
  req: IncomingMessage,
  res: ServerResponse,
  { keptBytesMax, limitBytes }: { keptBytesMax: number; limitBytes: number },
): Promise<{ sha256: string; body: Buffer | undefined }> {
  const hash = createHash("sha256");
  const pieces = new BodyPieces();
  let bytes = 0;
  return collect(req, res, limitBytes, {
    add(chunk) {
      bytes += chunk.length;
      hash.update(chunk);
      if (bytes <= keptBytesMax) pieces.add(chunk);
      else pieces.discard();
    },
    whole: () => ({
      sha256: hash.digest("hex"),
      body: bytes <= keptBytesMax ? pieces.whole() : undefined,
    }),
    discard: () => pieces.discard(),
  });
}

/** Returns the body's SHA-256 in hex, without keeping the body. Throws what `readBody` throws. */
export function hashBody(req: IncomingMessage, res: ServerResponse, limitBytes: number): Promise<string> {
  const hash = createHash("sha256");
  return collect(req, res, limitBytes, {
    add: (chunk) => hash.update(chunk),
    whole: () => hash.digest("hex"),
    discard() {},
  });
}

async function collect<Whole>(
  req: IncomingMessage,
  res: ServerResponse,
  limitBytes: number,
  sink: Sink<Whole>,
): Promise<Whole> {
  const reason = abortReasons.get(req) ?? transferCodingProblem(req); // a host's own server may not have checked the coding
  if (reason !== undefined) throw reason;
  // A request whose connection is already gone emits no further event, so the promise below would never settle.
  if (req.destroyed && !req.readableEnded) throw clientGone();
  const declared = declaredBytes(req);
  if (declared === 0 || isEmptyAndEnded(req)) return sink.whole();
  if (isReadElsewhere(req)) throw bodyConsumed();
  assertDeclared(req, limitBytes);
  if (req.headers.expect !== undefined) res.writeContinue();
  return await new Promise((resolve, reject) => {
    let bytes = 0;
    /**
     * Undefined once the promise is settled. The listeners below stay until the request is freed. Through these
     * functions they would keep the whole body in memory.
     */
    let waiting: { resolve: typeof resolve; reject: typeof reject } | undefined = { resolve, reject };
    const fail = (reason: AppError): void => {
      if (waiting === undefined) return;
      turns.leave(req);
      sink.discard();
      waiting.reject(reason);
      waiting = undefined;
    };
    const stop = (reason: AppError): void => {
      req.removeAllListeners("data");
      req.pause();
      fail(reason);
    };
    req.once(ABORTED, stop);
    req.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limitBytes) {
        stop(tooLarge(limitBytes));
        return;
      }
      sink.add(chunk, bytes === declared && bytes === chunk.length);
      if (waiting !== undefined && bytes !== declared) turns.count(req, chunk.length);
    });
    req.on("end", () => {
      if (waiting === undefined) return;
      try {
        waiting.resolve(sink.whole());
        waiting = undefined;
      } catch (thrown) {
        fail(toAppError(thrown));
      }
    });
    req.on("error", (cause) => fail(clientGone(cause)));
    req.on("close", () => {
      if (!req.complete) fail(clientGone());
    });
  });
}

/**
 * Returns whether the body is chunked but empty, and other code has already read to its end. Such a body is complete,
 * and emits no further event.
 */
function isEmptyAndEnded(req: IncomingMessage): boolean {
  return req.readableEnded && !req.readableDidRead;
}

/**
 * Returns whether other code has read bytes of the body, or receives them in another form, such as text. Then this
 * module's reader would not get the whole body.
 */
function isReadElsewhere(req: IncomingMessage): boolean {
  return req.readableDidRead || req.readableEncoding !== null || req.listenerCount("readable") > 0;
}

function bodyConsumed(): AppError {
  const detail =
    "the body was read before this handler, which needs its bytes: mount this handler before express.json() and every other body parser";
  return AppError.public("request.body_consumed", detail);
}

/** Throws `request.too_large` if the declared length is over the limit. */
export function assertDeclared(req: IncomingMessage, limitBytes: number): void {
  const declared = declaredBytes(req);
  if (Number.isFinite(declared) && declared > limitBytes) throw tooLarge(limitBytes);
}

export function tooLarge(limitBytes: number): AppError {
  const detail = `the body is over ${limitBytes} bytes`;
  return AppError.public("request.too_large", detail);
}

function clientGone(cause?: unknown): AppError {
  return new AppError("request.malformed", {
    reason: "the client disconnected before the whole body arrived",
    cause,
  });
}

/** Largest declared body that is read and dropped ("drained"), so that the connection can be reused. */
const DRAINED_BYTES_MAX = 64 * 1024;

/**
 * Prepares the answer to a request whose body will not be read. A short body is drained. After a large, unbounded or
 * aborted body, the connection ends with the answer. Call this before the headers are written.
 */
export function leaveUnread(req: IncomingMessage, res: ServerResponse): void {
  if (req.complete || req.destroyed || declaredBytes(req) === 0) return;
  if (isWorthDraining(req)) {
    req.resume();
    return;
  }
  req.pause();
  res.shouldKeepAlive = false;
  lingerOnClose(req.socket);
}

/**
 * Returns the body's length by its headers. Without Transfer-Encoding and Content-Length there is no body (RFC 9112,
 * section 6.3).
 */
function declaredBytes(req: IncomingMessage): number {
  if (req.headers["transfer-encoding"] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(req.headers["content-length"] ?? 0);
}

function isWorthDraining(req: IncomingMessage): boolean {
  if (req.headers.expect !== undefined || abortReasons.has(req)) return false;
  return declaredBytes(req) <= DRAINED_BYTES_MAX;
}

const ABORTED = Symbol("aborted");
const abortReasons = new WeakMap<IncomingMessage, AppError>();

/** Stops the reading of this request for good: current and later calls of `readBody` reject with the reason. */
export function abortRequest(req: IncomingMessage, reason: AppError): void {
  abortReasons.set(req, reason);
  req.emit(ABORTED, reason);
}
