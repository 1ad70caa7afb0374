#include "openings.h"

#include <array>

namespace demo {

namespace {

constexpr std::array<const char*, 32> kOpenings = {
    "Once upon a time, there was a little boy who",
    "The old fisherman looked at the sea and said,",
    "\"Where are you going?\" asked the king.",
    "It was a cold night in December, and",
    "In a small house by the river there lived",
    "The captain opened the letter and",
    "A fox once met a crow who",
    "When the rain stopped, the children",
    "Far away in the mountains stood a castle where",
    "The princess had lost her golden ring, so",
    "My grandmother used to tell me about",
    "There was a miller who had three sons, and",
    "The wolf came to the door and",
    "Early in the morning the farmer",
    "Nobody in the village knew why the bell",
    "The little bird sat on the window and",
    "Deep in the forest the two sisters found",
    "The ship had been at sea for forty days when",
    "The king's youngest daughter was",
    "\"I am not afraid,\" said the mouse, and",
    "At the end of the road stood an old woman who",
    "The clock struck twelve, and",
    "Tom and his dog walked down to the shore, where",
    "The giant was so tall that",
    "One winter a traveller knocked at the inn and",
    "The baker's cat had a secret:",
    "Long ago the moon and the sun",
    "The soldier came home from the war with",
    "Under the bridge there lived a troll who",
    "The gardener planted a seed, and the next day",
    "The shoemaker worked all night because",
    "Beyond the hill the horses",
};

}  // namespace

std::string opening(size_t number) {
  return kOpenings[number % kOpenings.size()];
}

}  // namespace demo
