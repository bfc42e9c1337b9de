import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icons.tsx";

type Props = {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** Buttons at the bottom. The last one performs the act. */
  foot?: ComponentChildren;
  /** Whether a request is in flight. Then the Escape key does not close the dialog, so that the user sees the outcome. */
  isBusy?: boolean;
};

/**
 * A modal dialog. The browser keeps the keyboard focus inside it. When the dialog closes, the focus returns to the
 * element that had it before.
 */
export function Dialog({ title, onClose, children, foot, isBusy = false }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!isBusy) onClose();
      }}
    >
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="icon-button" onClick={onClose} disabled={isBusy} aria-label="Close">
          <Icon name="close" />
        </button>
      </div>
      <div class="dialog-body">{children}</div>
      {foot !== undefined && <div class="dialog-foot">{foot}</div>}
    </dialog>
  );
}
