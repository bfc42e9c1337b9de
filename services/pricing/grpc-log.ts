import { setLogger } from "@grpc/grpc-js";
import type { Logger } from "../../shared/log/logger.ts";

/** Makes what the gRPC library says for itself, on stderr otherwise, lines of this process' log. */
export function logGrpc(log: Logger): void {
  const say = (...words: unknown[]): void => log.warn("grpc.said", { reason: words.map(String).join(" ") });
  setLogger({ error: say, info: say, debug: say });
}
