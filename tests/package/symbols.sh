#!/usr/bin/env bash
# What the shared library exports: the public interface alone. symbols.sh LIBRARY
set -euo pipefail
nm=${NM:-nm}

exported=$("$nm" -D --defined-only -C "$1" | sed -E 's/^[0-9a-f]* +[A-Za-z] //')
# A function or object of namespace tinyloop, or of its detail/ headers; types of exceptions that
# cross the border.
public='^tinyloop::(detail::)?([A-Za-z_]+(<[^>]*>)?::)?[A-Za-z_~]+'
types="^(typeinfo|typeinfo name|vtable) for (tinyloop::[A-Z][A-Za-z]+|boost::system::system_error)$"
inner='^((guard variable|typeinfo|typeinfo name|vtable) for )?tinyloop::(actors|engine|kernels|base)::'

if strangers=$(grep -vE "$public|$types" <<<"$exported"); then
  printf 'symbols: exported, but not public:\n%s\n' "$strangers" >&2
  exit 1
fi
if internals=$(grep -E "$inner" <<<"$exported"); then
  printf 'symbols: internals are exported:\n%s\n' "$internals" >&2
  exit 1
fi
# The list above must have been one: these are in every build.
for name in 'tinyloop::Engine::load(' 'tinyloop::Model::stream(' 'tinyloop::error_category()' \
    'typeinfo for boost::system::system_error'; do
  grep -qF "$name" <<<"$exported" || { echo "symbols: $name is not exported" >&2; exit 1; }
done
