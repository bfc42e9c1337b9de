import type { Clock } from "../platform/time/clock.ts";
import { type Span, tracer } from "../platform/traces/tracer.ts";
import { type NodeClient, type Rpc, type RpcResponse, rpcOn, spanOf } from "./rpc.ts";
import { errorIn, isRateLimit } from "./rpc-errors.ts";

/**
 * Maximum number of requests in one batch. Nodes accept a hundred or more. Some providers of nodes accept only ten or three, or
 * no batch at all.
 */
const BATCH_SIZE_MAX = 32;
/** Time for which a node gets smaller batches, after it left a request of a batch unanswered or limited the rate. */
const SMALLER_MS = 600_000;

/** The response to one request of a batch. Undefined if the node's answer to the batch has none. */
type Answer = { status: number; response: RpcResponse } | undefined;
/** Responses by the id of the request. */
type Answers = ReadonlyMap<unknown, Answer>;
type PendingRequest = {
  request: ReturnType<NodeClient["toRequest"]>;
  /** Traceparent of the caller's span. */
  parent: string | undefined;
  resolve: (answer: Answer) => void;
};

type Options = {
  /**
   * Limit on the bytes of an answer, on average over a batch. If a batch's answers are longer, each of its requests is sent
   * alone.
   */
  answerBytesEach: number;
  clock: Clock;
};

/**
 * Sends the requests of one turn of the event loop as one JSON-RPC batch. Only a rate limit fails all requests of a batch. A
 * request that the batch leaves unanswered is sent alone at once. A request with an abort signal is never part of a batch,
 * because an abort would also end the other requests. After an unanswered request or a rate limit, the node gets batches of half
 * the size for ten minutes. If that happens at size 2, it gets no batches.
 *
 * The requests of a batch wait for each other. So callers must not send requests here whose duration or answer length a stranger
 * controls.
 */
export function createBatchedRpc(node: NodeClient, { answerBytesEach, clock }: Options): Rpc {
  const alone = rpcOn(node);
  let waiting: PendingRequest[] = [];
  let smaller = { max: BATCH_SIZE_MAX, until: 0 };

  const sizeMax = (): number => (clock() < smaller.until ? smaller.max : BATCH_SIZE_MAX);

  function sendWaiting(): void {
    const all = waiting;
    waiting = [];
    while (all.length > 0) void sendBatch(all.splice(0, sizeMax()));
  }

  async function sendBatch(batch: readonly PendingRequest[]): Promise<void> {
    const answers = batch.length === 1 ? NONE : await answersOf(batch);
    for (const { request, resolve } of batch) resolve(answers.get(request.id));
  }

  async function answersOf(batch: readonly PendingRequest[]): Promise<Answers> {
    const requests = batch.map(({ request }) => request);
    const spans = batch.map(startSpan);
    const exchange = {
      what: "batch",
      // A batch gets half of the timeout, because a request that it leaves unanswered is then sent alone, with the whole timeout.
      timeoutMs: node.timeoutMs / 2,
      answerBytesMax: batch.length * answerBytesEach,
    };
    const answers = await node
      .post(requests, exchange)
      .then(({ status, answer }) => answersIn(status, answer, requests))
      // Also catches a failure to read the answer. Otherwise the requests of this batch would wait forever.
      .catch(() => NONE);
    for (const [index, { id }] of requests.entries()) endSpan(spans[index], answers.get(id));
    if (requests.some(({ id }) => needsSmallerBatch(answers.get(id)))) {
      const half = Math.max(1, batch.length >> 1);
      smaller = { max: Math.min(half, sizeMax()), until: clock() + SMALLER_MS };
    }
    return answers;
  }

  return async (call) => {
    if (call.signal !== undefined || sizeMax() === 1) return alone(call);
    const [request, parent] = [node.toRequest(call), tracer?.current()?.traceparent];
    const answer = await new Promise<Answer>((resolve) => {
      waiting.push({ request, parent, resolve });
      if (waiting.length === 1) setImmediate(sendWaiting);
    });
    return answer === undefined ? alone(call) : node.resultIn(call, answer.status, answer.response);
  };
}

function startSpan({ request, parent }: PendingRequest): Span | undefined {
  if (parent === undefined) return undefined;
  return tracer?.start({ kind: "client", ...spanOf(request.method), parent });
}

function endSpan(span: Span | undefined, answer: Answer): void {
  if (answer?.status !== 200) span?.fail(String(answer?.status ?? "unanswered"));
  span?.end();
}

const NONE: Answers = new Map();

/** The responses of a batch by request id. A duplicate id or an error about the whole batch leaves a request unanswered. */
function answersIn(status: number, answer: unknown, requests: readonly { id: number }[]): Answers {
  const limit = rateLimitOfBatch(status, answer);
  if (limit !== undefined) return new Map(requests.map(({ id }) => [id, limit]));
  if (status !== 200 || !Array.isArray(answer)) return NONE;
  const answers = new Map<unknown, Answer>();
  for (const each of answer as readonly unknown[]) {
    const { id, ...response } = (each ?? {}) as RpcResponse & { id?: unknown };
    answers.set(id, answers.has(id) || concernsBatch(response) ? undefined : { status, response });
  }
  return answers;
}

/**
 * Returns the rate-limit error of a refused batch, as the answer to each of its requests. Undefined if the batch was not refused because of
 * a rate limit.
 */
function rateLimitOfBatch(status: number, answer: unknown): Answer {
  const whole: unknown = Array.isArray(answer) && answer.length === 1 ? answer[0] : answer;
  const response = (whole ?? {}) as RpcResponse;
  return !concernsBatch(response) && isRateLimited(status, response) ? { status, response } : undefined;
}

/** Whether the request may get an answer in a smaller batch. A rate limit counts too, because some nodes count each request of a batch. */
function needsSmallerBatch(answer: Answer): boolean {
  return answer === undefined || isRateLimited(answer.status, answer.response);
}

function isRateLimited(status: number, response: RpcResponse): boolean {
  const error = errorIn(response);
  return status === 429 || (error !== undefined && isRateLimit(error));
}

/**
 * Whether the error concerns the whole batch. Geth answers -32600 to a batch that is too long, and -32003 if the answer would be too long.
 */
function concernsBatch(response: RpcResponse): boolean {
  const error = errorIn(response);
  if (error === undefined) return false;
  return error.code === -32_600 || error.code === -32_003 || /batch/i.test(error.message);
}
