// Part of the module: module.answer(request), both JSON text. Requests go to the heap, as a plan
// can be longer than the stack.
Module["answer"] = function (request) {
  const size = lengthBytesUTF8(request) + 1;
  const place = _malloc(size);
  stringToUTF8(request, place, size);
  try {
    return UTF8ToString(_player_answer(place));
  } finally {
    _free(place);
  }
};
