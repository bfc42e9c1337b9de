import type { Logger } from "../../shared/log/logger.ts";
import { type Token, versionsOf } from "./catalog.ts";
import type { Kinds } from "./facilitator/kinds.ts";

/** Logs that no facilitator takes a token any more, so that nothing is offered for it; and that one does again. */
export function createLogTokenKinds(tokens: readonly Token[], log: Logger) {
  const unsupported = new Set<Token>();
  return (offerable: Kinds): void => {
    for (const token of tokens) {
      const { network, asset, symbol } = token;
      const { v1, v2 } = versionsOf(token, offerable);
      const isTaken = v1 || v2;
      if (isTaken === !unsupported.has(token)) continue;
      if (isTaken) unsupported.delete(token);
      else unsupported.add(token);
      if (isTaken) log.info("token.supported", { network, asset, symbol });
      else log.error("token.unsupported", { network, asset, symbol });
    }
  };
}
